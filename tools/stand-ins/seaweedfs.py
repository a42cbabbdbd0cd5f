"""An S3 server in SeaweedFS's place, at its port; it keeps everything in memory, and takes SeaweedFS's arguments."""

import signal

from moto.server import ThreadedMotoServer

STOP = (signal.SIGTERM, signal.SIGINT)
signal.pthread_sigmask(signal.SIG_BLOCK, STOP)  # in all threads to come, so that they wait for `sigwait`
server = ThreadedMotoServer(ip_address="0.0.0.0", port=8333)  # noqa: S104 - in a network of its own
server.start()
signal.sigwait(STOP)
server.stop()
