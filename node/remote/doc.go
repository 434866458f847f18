// Package remote makes what a node has of a cluster that is reached over the network, with the credentials of the node.
package remote
