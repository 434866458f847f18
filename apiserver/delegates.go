package apiserver

import (
	"net/http"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Delegates serve versions of API groups in place of the server, which may have kinds of the same group, even of the same
// version. Implementations are safe for concurrent use.
type Delegates interface {
	// Delegate returns what serves a version of a group, or nil if the server itself does. The handler gets all requests
	// below /apis/GROUP/VERSION, once they are authenticated, authorized and audited; authn.FromContext tells whose they
	// are.
	Delegate(gv schema.GroupVersion) http.Handler
	// Delegated returns what discovery says about the versions that are served this way; nil is nothing. It does not
	// change: other versions are another value.
	Delegated() *Delegated
}

// Delegated are versions of API groups that delegates serve.
type Delegated struct{ Versions []DelegatedVersion }

// DelegatedVersion is one version of an API group.
type DelegatedVersion struct {
	// Group is the name of the group; it is empty for the core group.
	Group string
	// GroupPriority and VersionPriority decide its place in discovery: higher ones come first. The server's own groups
	// have upstream's priorities, those of custom kinds 1000 and 100.
	GroupPriority, VersionPriority int32
	// Discovery is what is served in the version, and whether that is known to be current.
	Discovery apidiscovery.APIVersionDiscovery
}
