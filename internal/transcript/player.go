package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// Answer is a server's answer to one step, with everything that differs between runs masked.
type Answer struct {
	Step   string            `json:"step"`
	Code   int               `json:"code"`
	Header map[string]string `json:"header,omitempty"`
	// Body is the decoded answer: an object, the events of a watch, or a text.
	Body any `json:"body,omitempty"`
}

// Player sends steps to one server, in order. It is not safe for concurrent use.
type Player struct {
	transport http.RoundTripper
	host      string // such as https://127.0.0.1:6443
	token     string // used by steps without a token of their own
	variables map[string]any
}

// NewPlayer returns a player that reaches the server at host through transport.
func NewPlayer(transport http.RoundTripper, host, token string) *Player {
	return &Player{transport: transport, host: host, token: token, variables: map[string]any{}}
}

// Play sends one step, and repeats it if the step awaits an answer that caches may delay.
func (p *Player) Play(ctx context.Context, s Step) (Answer, error) {
	for try := 0; ; try++ {
		a, err := p.once(ctx, s)
		if err != nil || s.Await == 0 || a.Code == s.Await || try == awaitTries {
			return a, err
		}
		select {
		case <-ctx.Done():
			return a, ctx.Err()
		case <-time.After(awaitEvery):
		}
	}
}

// A server's authorizer may briefly lag behind writes.
const (
	awaitTries = 100
	awaitEvery = 50 * time.Millisecond
)

func (p *Player) once(ctx context.Context, s Step) (Answer, error) {
	a := Answer{Step: s.Name}
	request, err := p.request(ctx, s)
	if err != nil {
		return a, fmt.Errorf("step %q: %w", s.Name, err)
	}
	response, err := p.transport.RoundTrip(request)
	if err != nil {
		return a, fmt.Errorf("step %q: %w", s.Name, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && ctx.Err() == nil && !strings.Contains(s.Path, "timeoutSeconds") {
		return a, fmt.Errorf("step %q: %w", s.Name, err)
	}
	a.Code = response.StatusCode
	a.Header = headers(response.Header)
	body := decode(response.Header.Get("Content-Type"), data, strings.Contains(s.Path, "watch") && response.StatusCode == http.StatusOK)
	if s.Save != "" {
		p.variables[s.Save] = body
	}
	if s.Owners {
		body = owned(body)
	}
	a.Body = mask(body)
	return a, nil
}

func (p *Player) request(ctx context.Context, s Step) (*http.Request, error) {
	path, err := p.expand(s.Path)
	if err != nil {
		return nil, err
	}
	text, err := p.expand(s.Body)
	if err != nil {
		return nil, err
	}
	body := []byte(text)
	if s.Header.Get("Content-Type") == protobufType && len(body) > 0 && body[0] == '{' {
		if body, err = toProtobuf(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, s.Method, p.host+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = s.Header.Clone()
	if _, ok := r.Header["Authorization"]; !ok {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	if r.Header.Get("Authorization") == "none" {
		r.Header.Del("Authorization")
	}
	return r, nil
}

var reference = regexp.MustCompile(`\$\{[^}]+\}`)

// expand substitutes values of earlier answers, and repeats text for "${repeat N x}".
func (p *Player) expand(text string) (string, error) {
	var failed error
	text = reference.ReplaceAllStringFunc(text, func(ref string) string {
		inner := ref[2 : len(ref)-1]
		var n int
		var what string
		if _, err := fmt.Sscanf(inner, "repeat %d %s", &n, &what); err == nil {
			return strings.Repeat(what, n)
		}
		parts := strings.Split(inner, ".")
		var value any = p.variables
		for _, part := range parts {
			m, ok := value.(map[string]any)
			if !ok || m[part] == nil {
				failed = fmt.Errorf("nothing is known as %s", ref)
				return ""
			}
			value = m[part]
		}
		return fmt.Sprint(value)
	})
	return text, failed
}

const protobufType = "application/vnd.kubernetes.protobuf"

// toProtobuf converts the JSON of an object with a type into protobuf.
func toProtobuf(data []byte) ([]byte, error) {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	return runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), obj)
}

// fromProtobuf also decodes objects that are only metadata.
func fromProtobuf(data []byte) (runtime.Object, error) {
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, metav1.AddMetaToScheme, metav1beta1.AddMetaToScheme} {
		if err := add(types); err != nil {
			return nil, err
		}
	}
	obj, _, err := serializer.NewCodecFactory(types).UniversalDeserializer().Decode(data, nil, nil)
	return obj, err
}

// decode decodes a body into the values of its JSON form, whatever its encoding. A watch becomes the list of its
// events.
func decode(contentType string, data []byte, watch bool) any {
	switch {
	case strings.HasPrefix(contentType, protobufType) && !strings.Contains(contentType, "stream=watch"):
		obj, err := fromProtobuf(data)
		if err != nil {
			return "not protobuf: " + err.Error()
		}
		data, err = json.Marshal(obj)
		if err != nil {
			return "not JSON: " + err.Error()
		}
	case strings.HasPrefix(contentType, "application/yaml"):
		converted, err := boundedyaml.ToJSON(data, max(len(data), boundedyaml.Limit))
		if err != nil {
			return "not YAML: " + err.Error()
		}
		data = converted
	case strings.HasPrefix(contentType, "application/json") && (watch || len(data) > 0):
	case len(data) == 0:
		return nil
	default:
		return string(data)
	}
	documents := []any{}
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		var v any
		if err := d.Decode(&v); err != nil {
			break
		}
		documents = append(documents, v)
	}
	switch {
	case watch:
		return documents
	case len(documents) == 1:
		return documents[0]
	}
	return string(data)
}
