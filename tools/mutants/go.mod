// Mutation testing; see main.go.
module github.com/keelson-dev/keelson/tools/mutants

go 1.26.0

require github.com/keelson-dev/keelson v0.0.0

replace github.com/keelson-dev/keelson => ../..
