"""Jobs of the service: submitted once, and followed to their end."""

from dataclasses import replace
from uuid import uuid4

from payoff_client.documents import Job, Object
from payoff_client.errors import of_job
from payoff_client.terminal import Bar
from payoff_client.transport import Call, Link, step

# Seconds between two requests for a job: the service waits before it answers, but a proxy may not.
PAUSE = 0.2


async def finished(link: Link, order: Call, title: str) -> Object:
    """The job of an order, once it has succeeded; JobFailed where it fails or is cancelled.

    The order has an idempotency key of its own, so that repeating it starts no second job.
    """
    headers = {**order.headers, "Idempotency-Key": uuid4().hex}
    job = await link.document(replace(order, headers=headers), Job)
    look = Call("GET", f"/jobs/{step(job['id'])}", headers={"Prefer": "wait=2"})
    with Bar(title, link.progress) as bar:
        while job["status"] in ("queued", "running"):
            bar.show(job["progress"], job.get("stage"))
            await link.sleep(PAUSE)
            job = await link.document(look, Job)
        if job["status"] != "succeeded":
            raise of_job(job)
        bar.show(1.0, "done")
    return dict(job)
