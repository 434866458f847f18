module example.test/operators

go 1.26
