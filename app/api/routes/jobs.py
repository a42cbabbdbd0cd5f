"""Jobs of every kind over HTTP: listing, looking, following, cancelling.

`/jobs` has them all. The paths of the verbs that start them, as `/train/{job_id}`, answer the same
about their own kinds; the OpenAPI document shows `/jobs` alone.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel

from app.api.charts import SVG_CONTENT, comparison_chart, svg, wants_svg
from app.api.dependencies import CallerDep, PageSize, PageToken, StoresDep
from app.api.errors import problems
from app.api.gate import TRAIN, needs
from app.api.jobs import JobState, JobStatus, Prefer, follow, wait
from app.api.limiters import limiters
from app.api.routes.compare import CompareDocument
from app.api.routes.replay import ReplayDocument
from app.api.routes.train import EXAMPLE_KEY, JobDocument
from app.api.routing import StrictRoute
from app.errors import Conflict
from app.jobs.job import Job
from app.jobs.queue import JobFilter, id_of_key
from app.report import replay
from app.tables.text import check_text
from app.training import calibrate, compare, import_model, train
from app.training import jobs as usecase

PUBLISHING = (train.KIND, calibrate.KIND, import_model.KIND)
DOCUMENTS: dict[str, type[JobState]] = {
    **dict.fromkeys(PUBLISHING, JobDocument),
    compare.KIND: CompareDocument,
    replay.KIND: ReplayDocument,
}
AnyJob = JobDocument | CompareDocument | ReplayDocument
Kind = Literal["train", "calibrate", "import", "compare", "replay"]

router = APIRouter(tags=["jobs"], route_class=StrictRoute)


class JobPage(BaseModel):
    """A page of jobs, newest first; comparisons and replays without their results."""

    jobs: list[JobDocument | JobState]
    next_page_token: str | None


def document(job: Job) -> Any:
    """The job as it is answered, an `AnyJob`."""
    return DOCUMENTS[job.kind].of(job)


def add_routes(prefix: str, kinds: Sequence[str], *, shown: bool = False) -> None:
    """List, look at, follow and cancel jobs of these `kinds` below a path."""
    job_id = Path(
        openapi_examples={"of POST /train": {"value": id_of_key(EXAMPLE_KEY)}}
    )
    options: dict[str, Any] = {"include_in_schema": shown}

    def existing(stores: StoresDep, caller: CallerDep, job_id: str = job_id) -> Job:
        return usecase.find_for(caller, stores, kinds, job_id)

    existing_job = Depends(existing)

    @router.get(prefix, response_model=JobPage, responses=problems(422), **options)
    @needs(TRAIN)
    def list_jobs(
        stores: StoresDep,
        caller: CallerDep,
        kind: Kind | None = None,
        status: JobStatus | None = None,
        model: Annotated[
            str | None, Query(description="only jobs for this model", max_length=64)
        ] = None,
        page_size: PageSize = 50,
        page_token: PageToken = None,
    ) -> Any:
        """Newest first."""
        listed_kinds = kinds
        if kind is not None:
            listed_kinds = (kind,) if kind in kinds else ()
        check_text(model or "", "/model")
        listed = JobFilter(
            kinds=listed_kinds,
            status=status,
            model=model,
            models=caller.models,
            client=caller.client,
        )
        jobs, token = stores.queue.page(
            listed,
            page_size=page_size,
            page_token=page_token,
            results_of=PUBLISHING,
        )
        documents = [
            (JobDocument if job.kind in PUBLISHING else JobState).of(job)
            for job in jobs
        ]
        return {"jobs": documents, "next_page_token": token}

    @router.get(
        f"{prefix}/{{job_id}}",
        response_model=AnyJob,
        responses={200: {"content": SVG_CONTENT}, **problems(404, 409)},
        **options,
    )
    @needs(TRAIN)
    async def get_job(
        request: Request,
        response: Response,
        job: Job = existing_job,
        prefer: Prefer = None,
    ) -> Any:
        """A comparison with `Accept: image/svg+xml` is a chart of its intervals; 409 while there is
        none.
        """
        current = document(await wait(request, response, job, prefer))
        response.headers["Vary"] = "Accept"
        if not isinstance(current, CompareDocument) or not wants_svg(request):
            return current
        if current.result is None:
            raise Conflict(
                f"the comparison has no table to draw: it is {current.status}"
            )
        result = current.result.model_dump()
        return svg(await limiters(request).long.run(request, comparison_chart, result))

    @router.get(
        f"{prefix}/{{job_id}}/events",
        response_class=EventSourceResponse,
        responses=problems(404),
        **options,
    )
    @needs(TRAIN)
    async def follow_job(
        request: Request, job: Job = existing_job
    ) -> AsyncIterator[ServerSentEvent]:
        """Server-sent events until the job ends, one whenever it has changed: what `GET
        /jobs/{job_id}` answers.
        """
        async for event in follow(request, job, document):
            yield event

    @router.delete(
        f"{prefix}/{{job_id}}",
        status_code=202,
        response_model=AnyJob,
        responses=problems(404, 409),
        **options,
    )
    @needs(TRAIN)
    def cancel_job(stores: StoresDep, caller: CallerDep, job_id: str = job_id) -> Any:
        """A queued job is cancelled at once, a running one within two seconds; 409 where it has
        succeeded or failed.
        """
        return document(usecase.cancel(stores, caller, kinds, job_id))


add_routes("/jobs", tuple(DOCUMENTS), shown=True)
add_routes("/train", (train.KIND, import_model.KIND))
for _kind in (calibrate.KIND, compare.KIND, replay.KIND):
    add_routes(f"/{_kind}", (_kind,))
