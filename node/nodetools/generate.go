package nodetools

//go:generate cp ../../tools/node/go.mod pinned.mod
//go:generate cp ../../tools/node/go.sum pinned.sum
