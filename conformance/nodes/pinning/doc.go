// Package pinning compares what keelson's kubelet gives to containers alone with what the CPU manager, the memory manager and the
// topology manager of Kubernetes 1.37.1 do: on random machines, under random policies, the same pods come and go. Every container must
// get the same CPUs and NUMA nodes, every refusal must say the same, and each must read the other's files. Nor may the choices differ that the tests of kubelet/pinning/cpus have written down.
package pinning
