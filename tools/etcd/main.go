// Command etcd is the upstream etcd of go.etcd.io/etcd, built at the version this module pins.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
