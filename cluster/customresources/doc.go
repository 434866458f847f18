// Package customresources lets a cluster serve CustomResourceDefinitions and the kinds that they define: Extension goes
// into cluster.Options.Extensions. It is a package of its own because the rules of custom kinds are heavy to link.
//
// Definitions that the store has are served before the cluster is ready, and later ones before they are established. What
// package registry/custom cannot serve is not established, and its status says why.
package customresources
