"""The databases and lakes that tables come from and go to, one package each."""
