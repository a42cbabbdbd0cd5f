FROM payoff-stand-in
# the official image's user, folder and variables
RUN usermod -u 999 postgres && groupmod -g 999 postgres \
 && install -d -o 999 -g 999 -m 1777 /var/lib/postgresql /var/run/postgresql
ENV PATH=/usr/lib/postgresql/15/bin:$PATH PGDATA=/var/lib/postgresql/18/docker
COPY postgres.sh /usr/local/bin/docker-entrypoint.sh
VOLUME /var/lib/postgresql
STOPSIGNAL SIGINT
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
