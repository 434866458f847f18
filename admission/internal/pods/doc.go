// Package pods has what admission plugins for pods share: which requests are about a pod or change it, its containers with their
// paths, and which of two tolerations covers the other.
package pods
