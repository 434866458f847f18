// Package remote gives a node access to a remote cluster, with the credentials of the node.
package remote
