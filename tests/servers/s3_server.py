"""moto's S3 server, which finds out whether an object exists and writes it in one step, as every real store does."""

import threading

from moto import server
from moto.s3.responses import S3Response


def main():
    put, lock = S3Response._key_response_put, threading.Lock()

    def put_alone(*arguments, **named):
        with lock:
            return put(*arguments, **named)

    S3Response._key_response_put = put_alone
    server.main()


if __name__ == "__main__":
    main()
