"""The console in the browser: static files, which `app/api/routes/console.py` serves."""
