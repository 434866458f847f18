package faults

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
)

// The verbs of a Request.
const (
	Create = "create"
	Update = "update"
	Patch  = "patch"
	Delete = "delete"
	Get    = "get"
	List   = "list"
)

// Request is one request. Object is what a create or update sends (do not change it), Patch the body of a patch.
type Request struct {
	Verb   string // one of the constants above
	Target client.Target
	Object runtime.Object
	Patch  []byte // the data of a patch
}

// Writes tells whether the request is to change anything.
func (r Request) Writes() bool { return r.Verb != Get && r.Verb != List }

// String is "verb resource[/subresource] [namespace/]name".
func (r Request) String() string {
	name := r.Target.Name
	if name == "" && r.Object != nil {
		if about, err := meta.Accessor(r.Object); err == nil {
			name = about.GetName() + about.GetGenerateName()
		}
	}
	if r.Target.Namespace != "" {
		name = r.Target.Namespace + "/" + name
	}
	return r.Verb + " " + r.resource() + " " + name
}

// resource is "resource[/subresource]".
func (r Request) resource() string {
	if r.Target.Subresource == "" {
		return r.Target.Resource.Resource
	}
	return r.Target.Resource.Resource + "/" + r.Target.Subresource
}

// name is the object's, be it of the target or of the body.
func (r Request) name() string {
	if r.Target.Name != "" || r.Object == nil {
		return r.Target.Name
	}
	about, err := meta.Accessor(r.Object)
	if err != nil {
		return ""
	}
	return about.GetName()
}
