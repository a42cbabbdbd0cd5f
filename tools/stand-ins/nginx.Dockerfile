FROM payoff-stand-in
RUN ln -s /bin/busybox /usr/local/bin/wget
CMD ["nginx", "-g", "daemon off;"]
