package openapi

import (
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// Definitions that operations refer to whatever their kind.
const (
	watchEvent       = meta + "WatchEvent"
	deleteOptions    = meta + "DeleteOptions"
	patchDefinition  = meta + "Patch"
	statusDefinition = meta + "Status"
	listMeta         = meta + "ListMeta"
	objectMeta       = meta + "ObjectMeta"
	scaleDefinition  = "io.k8s.api.autoscaling.v1.Scale"
)

func scaleKind() schema.GroupVersionKind { return autoscalingv1.SchemeGroupVersion.WithKind("Scale") }

// viewVerbs are what can be done with a subresource that shows a part of the object.
func viewVerbs() []string { return []string{"get", "patch", "update"} }

// resource is what the documents say of a kind in one group-version.
type resource struct {
	*registry.Kind

	gvk     schema.GroupVersionKind
	plural  string
	base    string // the path of the group-version
	media   []string
	object  string // the definition of what is read and written
	listed  string // the definition of the list
	actions map[string]action
	sub     string // the subresource that is spoken of
}

// action is a subresource that is posted to.
type action struct {
	kind       schema.GroupVersionKind
	definition string
}

// newResource describes a kind in a group-version that serves it.
func newResource(in *registry.Kind, gv schema.GroupVersion, t *types) resource {
	k := version(in, gv)
	r := resource{Kind: k, gvk: gv.WithKind(k.Names.Kind), plural: k.Plural, base: base(gv), actions: map[string]action{}}
	if k.Answer != nil {
		object := k.NewRequest()
		r.media, r.object = mediaOf(object), t.define(object, r.gvk)
		return r
	}
	object, list := runtime.Object(k.New()), k.NewList()
	r.media = mediaOf(object)
	if k.Schema != nil {
		r.object, r.listed = t.defineCustom(k, r.gvk)
	} else {
		r.object, r.listed = t.define(object, r.gvk), t.define(list, gv.WithKind(k.ListKind()))
	}
	for name, a := range k.Sub.Actions {
		r.actions[name] = action{a.GroupVersionKind, t.define(a.New(), a.GroupVersionKind)}
	}
	return r
}

// version returns the kind as a group-version serves it, or nil.
func version(k *registry.Kind, gv schema.GroupVersion) *registry.Kind {
	all := k.Served()
	if i := slices.IndexFunc(all, func(v registry.Kind) bool { return v.GroupVersion == gv }); i >= 0 {
		return &all[i]
	}
	return nil
}

// base is the path below which a group-version is served.
func base(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version + "/"
	}
	return "/apis/" + gv.String() + "/"
}

// mediaOf are the media types in which an object can be written.
func mediaOf(object runtime.Object) []string {
	if codec.HasProtobuf(object) {
		return serialized()
	}
	return []string{mediaJSON, mediaYAML}
}
