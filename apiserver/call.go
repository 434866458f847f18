package apiserver

import (
	"context"
	"errors"
	"net/http"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/registry"
)

// operation serves a call: it reads the request and answers it.
type operation func(*call, context.Context)

// call is one request to one endpoint.
type call struct {
	backend  *backend
	endpoint *endpoint
	resource *registry.Resource // the endpoint's
	request  Request
	exchange *exchange // takes the answer
	r        *http.Request
	warnings warnings // of the answer
	replaced bool     // the attempt failed since the kind was replaced
	attempts int
}

// maxAttempts is how often a request is served anew because its kind was replaced.
const maxAttempts = 100

// namespace is the namespace of the object. It is empty for kinds without one, though the path of a Namespace names itself
// as one.
func (c *call) namespace() string { return c.storedNamespace(c.request.Namespace) }

func (c *call) storedNamespace(requested string) string {
	if !c.resource.Namespaced {
		return ""
	}
	return requested
}

// fail answers with an error. If the kind was replaced meanwhile, nothing is answered yet: see router.serve.
func (c *call) fail(err error) {
	if c.replaced = errors.Is(err, registry.ErrReplaced) && c.attempts < maxAttempts; !c.replaced {
		writeError(c.exchange, c.r, err)
	}
}

// warn adds a warning to the answer (RFC 7234, 5.5), once. As upstream does, it cuts many warnings short so that the header
// stays small.
func (c *call) warn(text string) { c.warnings.add(c.exchange.Header(), text) }

// canceled returns an error if nobody waits for the answer any more: the request timed out, or the client is gone. Long
// work checks it between its steps, and between the items of a list.
func (c *call) canceled() error { return c.r.Context().Err() }

// accept picks the form of the answer.
func (c *call) accept() (format, error) {
	sub := c.request.Subresource
	f, ok := negotiate(c.r, formats{
		protobuf: c.endpoint.hasProtobuf() || sub == "scale",
		metadata: true,
		table:    c.resource.Answer == nil && (sub == "" || sub == "status" || sub == "scale"),
	})
	if !ok {
		return format{}, notAcceptable(offered(c.r))
	}
	return f, nil
}

// authorizeAs authorizes the request under another verb, for what it turns out to do.
func (c *call) authorizeAs(ctx context.Context, verb string) error {
	return c.backend.authorize(ctx, c.attributesAs(ctx, verb))
}

func (c *call) attributesAs(ctx context.Context, verb string) authz.Attributes {
	q := c.request
	q.Verb = verb
	return attributes(authn.FromContext(ctx), &q)
}
