package apiserver

import "context"

// operation finds what serves a request. found is false if there is no such path, op is nil if the path does not take the
// method.
func (e *endpoint) operation(q *Request, method string) (op operation, found bool) {
	if q.Subresource != "" {
		return e.subresourceOperation(q, method)
	}
	if q.Name != "" && !q.namesByField() {
		return e.objectOperation(q)
	}
	return e.collectionOperation(q)
}

// objectOperation finds what serves a request about one object.
func (e *endpoint) objectOperation(q *Request) (op operation, found bool) {
	if e.resource.Answer != nil || e.resource.Namespaced && q.Namespace == "" {
		return nil, false
	}
	switch verb := q.Verb; {
	case verb == "get":
		return (*call).get, true
	case e.resource.Read != nil:
		return nil, true
	}
	switch q.Verb {
	case "watch":
		return (*call).watch, true
	case "update":
		return (*call).update, true
	case "patch":
		return (*call).patch, true
	case "delete":
		return (*call).delete, true
	}
	return nil, true
}

// collectionOperation finds what serves a request about all objects, of one namespace or of all.
func (e *endpoint) collectionOperation(q *Request) (op operation, found bool) {
	everywhere := e.resource.Namespaced && q.Namespace == ""
	switch verb := q.Verb; {
	case e.resource.Answer != nil && everywhere:
		return nil, false
	case e.resource.Read != nil && verb != "list":
		return nil, true
	case verb == "create" && !everywhere:
		return (*call).create, true
	case e.resource.Answer != nil:
		return nil, true
	case verb == "list":
		return (*call).list, true
	case verb == "watch":
		return (*call).watch, true
	case verb == "deletecollection" && !everywhere && !e.resource.Rules.Deletion.Singly:
		return (*call).deleteCollection, true
	}
	return nil, true
}

// subresourceOperation finds what serves a request about a subresource of an object.
func (e *endpoint) subresourceOperation(q *Request, method string) (op operation, found bool) {
	if connect, ok := e.connects(q); ok {
		return connectOperation(connect, method), true
	}
	if len(q.Rest) > 0 || e.resource.Namespaced && q.Namespace == "" {
		return nil, false
	}
	if _, ok := e.resource.Sub.Views[q.Subresource]; ok {
		return viewOperation(q), true
	}
	if e.resource.Sub.Scale != nil && q.Subresource == "scale" {
		switch q.Verb {
		case "get":
			return (*call).getScale, true
		case "update":
			return (*call).updateScale, true
		case "patch":
			return (*call).patch, true
		}
		return nil, true
	}
	action, ok := e.resource.Sub.Actions[q.Subresource]
	if !ok || q.Verb != "create" {
		return nil, ok
	}
	return func(c *call, ctx context.Context) { c.runAction(ctx, action) }, true
}

// viewOperation finds what serves a part of the object, such as its status, under the object's own type.
func viewOperation(q *Request) operation {
	switch {
	case q.Verb == "update":
		return (*call).update
	case q.Subresource == "finalize":
		return nil // it can only be written whole
	case q.Verb == "get":
		return (*call).get
	case q.Verb == "patch":
		return (*call).patch
	}
	return nil
}
