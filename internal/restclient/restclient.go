// Package restclient sets up client-go's REST clients for the packages that need a server.
package restclient

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Clients makes one REST client per group-version; all share an HTTP client and a rate limit. It is safe for concurrent
// use.
type Clients struct {
	config *rest.Config
	http   *http.Client
	codecs serializer.CodecFactory
	media  string

	mu      sync.Mutex
	clients map[schema.GroupVersion]rest.Interface
}

// New prepares clients. The scheme knows the types that are sent and decoded.
func New(config *rest.Config, scheme *runtime.Scheme) (*Clients, error) {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	media := runtime.ContentTypeJSON
	if config.ContentType != "" {
		var err error
		if media, _, err = mime.ParseMediaType(config.ContentType); err != nil {
			return nil, fmt.Errorf("content type %q: %w", config.ContentType, err)
		}
	}
	if media == runtime.ContentTypeProtobuf && config.AcceptContentTypes == "" {
		// Custom kinds have no protobuf form.
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	if config.RateLimiter == nil && config.QPS >= 0 {
		qps, burst := config.QPS, config.Burst
		if qps == 0 {
			qps = rest.DefaultQPS
		}
		if burst == 0 {
			burst = rest.DefaultBurst
		}
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Clients{
		config: config, http: httpClient, media: media,
		codecs:  serializer.NewCodecFactory(scheme),
		clients: map[schema.GroupVersion]rest.Interface{},
	}, nil
}

// For returns the client of a group-version.
func (c *Clients) For(gv schema.GroupVersion) (rest.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.clients[gv]; ok {
		return found, nil
	}
	config := rest.CopyConfig(c.config)
	config.GroupVersion = &gv
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = orUnstructured{c.codecs.WithoutConversion()}
	if c.media != runtime.ContentTypeYAML {
		config.NegotiatedSerializer = withoutYAML{config.NegotiatedSerializer}
	}
	made, err := rest.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, err
	}
	c.clients[gv] = made
	return made, nil
}

// orUnstructured decodes objects of kinds that the scheme does not know, which are custom ones, without a Go type.
type orUnstructured struct{ runtime.NegotiatedSerializer }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (s orUnstructured) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return untyped{s.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

type untyped struct{ runtime.Decoder }

// Decode implements runtime.Decoder.
func (d untyped) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := d.Decoder.Decode(data, defaults, into)
	if err == nil || into != nil || !runtime.IsNotRegisteredError(err) || !bytes.HasPrefix(data, []byte("{")) {
		return obj, gvk, err
	}
	return unstructured.UnstructuredJSONScheme.Decode(data, defaults, nil)
}

// withoutYAML drops YAML, which no client requests: a server's aliases could expand to any size.
type withoutYAML struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s withoutYAML) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeYAML
	})
}

// Encode returns obj encoded, and its content type: that of the config, or JSON for a type without a protobuf form. obj
// may be shared; it is not modified.
func (c *Clients) Encode(obj runtime.Object, gv schema.GroupVersion) ([]byte, string, error) {
	media := c.media
	if _, ok := obj.(runtime.ProtobufMarshaller); !ok && media == runtime.ContentTypeProtobuf {
		media = runtime.ContentTypeJSON
	}
	info, ok := runtime.SerializerInfoForMediaType(c.codecs.SupportedMediaTypes(), media)
	if !ok {
		return nil, "", fmt.Errorf("content type %q is not supported", media)
	}
	encoder := c.codecs.WithoutConversion().EncoderForVersion(info.Serializer, gv)
	data, err := runtime.Encode(encoder, shallow(obj))
	return data, media, err
}

// shallow copies as much of an object as encoders modify: they write the kind into it.
func shallow(obj runtime.Object) runtime.Object {
	if u, ok := obj.(runtime.Unstructured); ok {
		return u.DeepCopyObject()
	}
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return obj
	}
	c := reflect.New(v.Type().Elem())
	c.Elem().Set(v.Elem())
	return c.Interface().(runtime.Object)
}
