package etcdtest

import "syscall"

// attributes makes a member die with the thread that started it, so that no etcd outlives its test, however that ends.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
