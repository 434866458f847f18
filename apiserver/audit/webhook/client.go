package webhook

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	// patience is how long a post may take unless the configuration says so.
	patience = 30 * time.Second
	// maxAnswer is how much of an answer is read, of which only errors quote a little.
	maxAnswer = 64 << 10
)

// client posts to one URL.
type client struct{ rest *rest.RESTClient }

func newClient(config *rest.Config) (*client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // posts are throttled before
	if config.Timeout == 0 {
		config.Timeout = patience
	}
	config.ContentType = runtime.ContentTypeJSON
	config.NegotiatedSerializer = runtime.NewSimpleNegotiatedSerializer(runtime.SerializerInfo{
		MediaType: runtime.ContentTypeJSON, Serializer: unstructured.UnstructuredJSONScheme,
	})
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	made, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("audit webhook: %w", err)
	}
	return &client{made}, nil
}

// post posts a list once, or until the server no longer asks to come back after a while. Any answer of success will do.
func (c *client) post(ctx context.Context, list []byte) error {
	return c.rest.Post().SetHeader("Content-Type", runtime.ContentTypeJSON).Body(list).Do(ctx).Error()
}

// close closes connections that nobody uses.
func (c *client) close() { utilnet.CloseIdleConnectionsFor(c.rest.Client.Transport) }

// bounded ends answers that are too long.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = limited{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}

// WrappedRoundTripper lets idle connections be found.
func (b bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

type limited struct {
	io.Reader
	io.Closer
}
