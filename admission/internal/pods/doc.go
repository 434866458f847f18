// Package pods has what admission plugins for pods share: which requests are about a pod itself, its containers with their
// paths, and which of two tolerations covers the other.
package pods
