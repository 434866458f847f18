package rest

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/internal/restclient"
)

// Client is a client.Client over the wire. Make one with New.
type Client struct {
	clients *restclient.Clients
}

var (
	_ client.Client  = (*Client)(nil)
	_ client.Querier = (*Client)(nil)
)

// New makes a client of the server that config leads to. The scheme knows the Go types of what
// is sent and received, such as k8s.io/client-go/kubernetes/scheme.Scheme; objects of kinds it
// does not know are *unstructured.Unstructured. Objects travel in the config's ContentType: JSON unless it asks for
// protobuf, and JSON for custom kinds in any case.
//
// As everywhere in client-go, a config with QPS 0 is held to 5 requests a second, and a
// negative QPS lifts the limit.
func New(config *clientgo.Config, scheme *runtime.Scheme) (*Client, error) {
	clients, err := restclient.New(config, scheme)
	if err != nil {
		return nil, err
	}
	return &Client{clients: clients}, nil
}

// Get implements client.Getter.
func (c *Client) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	if t.Name == "" {
		return nil, client.ErrNoName
	}
	r, err := c.request("GET", t, nil)
	if err != nil {
		return nil, err
	}
	return r.Do(ctx).Get()
}

// List implements client.Lister. A TimeoutSeconds bounds the request, too.
func (c *Client) List(ctx context.Context, t client.Target, options metav1.ListOptions) (runtime.Object, error) {
	r, err := c.request("GET", t, &options)
	if err != nil {
		return nil, err
	}
	if s := options.TimeoutSeconds; s != nil {
		r.Timeout(time.Duration(*s) * time.Second)
	}
	return r.Do(ctx).Get()
}

// Create implements client.Creator. The target names the object only to post to a subresource
// of it.
func (c *Client) Create(ctx context.Context, t client.Target, obj runtime.Object, options metav1.CreateOptions) (runtime.Object, error) {
	if t.Subresource == "" {
		t.Name = ""
	}
	return c.write(ctx, "POST", t, obj, &options)
}

// Update implements client.Updater.
func (c *Client) Update(ctx context.Context, t client.Target, obj runtime.Object, options metav1.UpdateOptions) (runtime.Object, error) {
	if t.Name == "" {
		return nil, client.ErrNoName
	}
	return c.write(ctx, "PUT", t, obj, &options)
}

func (c *Client) write(ctx context.Context, verb string, t client.Target, obj, options runtime.Object) (runtime.Object, error) {
	r, err := c.request(verb, t, options)
	if err != nil {
		return nil, err
	}
	body, contentType, err := c.clients.Encode(obj, t.Resource.GroupVersion())
	if err != nil {
		return nil, err
	}
	return r.SetHeader("Content-Type", contentType).Body(body).Do(ctx).Get()
}

// Patch implements client.Patcher.
func (c *Client) Patch(ctx context.Context, t client.Target, patch client.Patch, options metav1.PatchOptions) (runtime.Object, error) {
	if t.Name == "" {
		return nil, client.ErrNoName
	}
	r, err := c.request("PATCH", t, &options)
	if err != nil {
		return nil, err
	}
	return r.SetHeader("Content-Type", string(patch.Type)).Body(patch.Data).Do(ctx).Get()
}

// Delete implements client.Deleter.
func (c *Client) Delete(ctx context.Context, t client.Target, options metav1.DeleteOptions) error {
	r, err := c.request("DELETE", t, nil)
	if err != nil {
		return err
	}
	options.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	body, err := json.Marshal(&options)
	if err != nil {
		return err
	}
	return r.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx).Error()
}

// Query implements client.Querier.
func (c *Client) Query(ctx context.Context, path string, query url.Values) ([]byte, error) {
	cl, err := c.clients.For(schema.GroupVersion{Version: "v1"})
	if err != nil {
		return nil, err
	}
	r := cl.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON)
	for name, values := range query {
		for _, value := range values {
			r.Param(name, value)
		}
	}
	result := r.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// request starts a request for the target with the options in its query.
func (c *Client) request(verb string, t client.Target, options runtime.Object) (*clientgo.Request, error) {
	cl, err := c.clients.For(t.Resource.GroupVersion())
	if err != nil {
		return nil, err
	}
	r := cl.Verb(verb).Resource(t.Resource.Resource)
	if t.Namespace != "" {
		r.Namespace(t.Namespace)
	}
	if t.Name != "" {
		r.Name(t.Name)
	}
	if t.Subresource != "" {
		r.SubResource(t.Subresource)
	}
	if options != nil {
		r.SpecificallyVersionedParams(options, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
	}
	if t.Uninitialized && verb == "GET" {
		r.Param("includeUninitialized", "true")
	}
	return r, nil
}
