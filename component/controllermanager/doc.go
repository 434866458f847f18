// Package controllermanager provides the controllers of kube-controller-manager as components, under upstream's names
// and identities. The sources of their events and the user agents of their requests are upstream's too.
package controllermanager
