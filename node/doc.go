// Package node is a node's access to its cluster, whatever runs the node. Packages below it run nodes of real
// containers:
//
//   - host assembles a kubelet with all its parts on this machine, over any runtime that serves CRI;
//   - bundled is a node in a directory of its own that brings its containerd and its network;
//   - remote makes the Parts of a node of a cluster that is reached with a kubeconfig, where cluster.Nodes has those of a
//     cluster in this process;
//   - kubeletconfig reads a KubeletConfiguration for a host;
//   - certificates requests a node's own certificates and replaces them before they end;
//   - containerd is a containerd of one node, nodetools installs the programs that it takes, ociimage makes images where no
//     registry is reachable; filelock keeps processes out of each other's directories, and localvolumes
//     has the directories of persistent volumes.
package node
