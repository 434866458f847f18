package calctest
