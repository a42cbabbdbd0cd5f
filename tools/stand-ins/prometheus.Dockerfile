FROM payoff-stand-in
RUN ln -s /bin/busybox /usr/local/bin/wget && install -d -o nobody -g nogroup /prometheus
USER nobody
ENTRYPOINT ["/bin/prometheus"]
