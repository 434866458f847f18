// Package controllermanager is the controllers of kube-controller-manager as components, under upstream's names and
// identities. Its events and requests are told apart from others as upstream's are.
package controllermanager
