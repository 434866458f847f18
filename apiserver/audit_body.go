package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/apiserver/audit"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/codec"
)

// auditRecord is the record of the request. It may be nil, whose methods do nothing.
func (c *call) auditRecord() *audit.Record {
	if c.exchange.audit == nil {
		return nil
	}
	return c.exchange.audit.record
}

// auditBody adds the body of the request to its audit record: an object as it was decoded.
func (c *call) auditBody(gvk schema.GroupVersionKind, obj runtime.Object) {
	record := c.auditRecord()
	if record == nil {
		return
	}
	if meta, ok := obj.(metav1.Object); ok {
		record.Object(meta)
	}
	if !record.WantsRequest() {
		return
	}
	if data, err := codec.JSON(gvk, obj); err == nil {
		record.RequestObject(data)
	}
}

// auditStoredBody is auditBody for an object in its stored version, with its defaults. namespace is the one that the body
// itself named.
func (c *call) auditStoredBody(obj registry.Object, namespace string) {
	if !c.auditRecord().WantsRequest() {
		return
	}
	served, err := c.endpoint.served(obj)
	if err != nil {
		return // the answer will say so
	}
	if served.GetNamespace() != namespace {
		served = served.DeepCopyObject().(registry.Object)
		served.SetNamespace(namespace)
	}
	c.auditBody(c.endpoint.gvk(), served)
}

// auditPatch adds the patch, in JSON, to the audit record.
func (c *call) auditPatch(data []byte) { c.auditRecord().RequestObject(data) }
