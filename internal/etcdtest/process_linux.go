package etcdtest

import "syscall"

// attributes let a member die with the thread that started it: no etcd outlives its test, however that ends.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
