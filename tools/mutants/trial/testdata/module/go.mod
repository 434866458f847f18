module example.test/m

go 1.26
