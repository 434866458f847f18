// Package review converts custom objects by the webhook that their definition names: it writes ConversionReviews and reads the
// answers (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/).
// How a review gets to the webhook is up to a [Caller]. What the answer contains is checked by package custom.
//
// Messages of errors are upstream's. A Converter is safe for concurrent use if its Caller is.
package review

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/registry/custom"
)

const kind = "ConversionReview"

// Caller brings reviews to webhooks.
type Caller interface {
	// Call posts a review, a ConversionReview in JSON, to the webhook that a definition describes, and returns the body of
	// its answer, whose size it bounds. It returns once ctx ends. Its error tells users why there is no answer.
	Call(ctx context.Context, to *apiextensionsv1.WebhookClientConfig, review []byte) ([]byte, error)
}

// CallerFunc is a function as a Caller.
type CallerFunc func(ctx context.Context, to *apiextensionsv1.WebhookClientConfig, review []byte) ([]byte, error)

// Call calls f.
func (f CallerFunc) Call(ctx context.Context, to *apiextensionsv1.WebhookClientConfig, review []byte) ([]byte, error) {
	return f(ctx, to, review)
}

// Options are the options of a Converter. The zero value is valid.
type Options struct {
	// Timeout is how long a call may take; 0 means 30 s.
	Timeout time.Duration
}

// Converter converts objects by a webhook. Make one with New.
type Converter struct {
	webhook *apiextensionsv1.WebhookConversion
	caller  Caller
	timeout time.Duration
}

var _ custom.Converter = (*Converter)(nil)

// New returns the converter that a definition describes.
func New(w *apiextensionsv1.WebhookConversion, c Caller, o Options) *Converter {
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	return &Converter{webhook: w.DeepCopy(), caller: c, timeout: o.Timeout}
}

// answer is a ConversionReview as a webhook sends it, in either version: their fields are the same.
type answer struct {
	metav1.TypeMeta
	Response *struct {
		UID     types.UID              `json:"uid"`
		Objects []runtime.RawExtension `json:"convertedObjects"`
		Result  metav1.Status          `json:"result"`
	} `json:"response"`
}

// Convert implements custom.Converter.
func (c *Converter) Convert(ctx context.Context, objs []*unstructured.Unstructured, to schema.GroupVersion) ([]*unstructured.Unstructured, error) {
	version, err := version(c.webhook.ConversionReviewVersions)
	if err != nil {
		return nil, err
	}
	request := apiextensionsv1.ConversionRequest{UID: newUID(), DesiredAPIVersion: to.String()}
	for _, obj := range objs {
		request.Objects = append(request.Objects, runtime.RawExtension{Object: obj})
	}
	gvk := schema.GroupVersionKind{Group: apiextensionsv1.GroupName, Version: version, Kind: kind}
	body, err := json.Marshal(&apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: kind}, Request: &request,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	data, err := c.caller.Call(ctx, c.webhook.ClientConfig, body)
	if err != nil {
		return nil, err
	}
	return read(data, gvk, request.UID)
}

// version is the first of the versions that a webhook understands which is known here.
func version(understood []string) (string, error) {
	for _, v := range understood {
		if v == apiextensionsv1.SchemeGroupVersion.Version || v == v1beta1.SchemeGroupVersion.Version {
			return v, nil
		}
	}
	return "", errors.New("no supported conversion review versions")
}

// read returns the objects in an answer to a review. In v1, it must belong to the review.
func read(data []byte, want schema.GroupVersionKind, uid types.UID) ([]*unstructured.Unstructured, error) {
	var a answer
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &a); err != nil {
		return nil, err
	}
	strict := want.Version == apiextensionsv1.SchemeGroupVersion.Version
	switch got := a.GroupVersionKind(); {
	case strict && got != want:
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want, got)
	case a.Response == nil:
		return nil, errors.New("no response provided")
	case strict && a.Response.UID != uid:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, a.Response.UID)
	case a.Response.Result.Status == metav1.StatusSuccess:
	case a.Response.Result.Message != "":
		return nil, errors.New(a.Response.Result.Message)
	default:
		return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", a.Response.Result.Status)
	}
	out := make([]*unstructured.Unstructured, len(a.Response.Objects))
	for i, raw := range a.Response.Objects {
		out[i] = &unstructured.Unstructured{}
		if err := out[i].UnmarshalJSON(raw.Raw); err != nil {
			return nil, fmt.Errorf("invalid converted object at index %d: %w", i, err)
		}
	}
	return out, nil
}

// newUID is a random UUID, version 4.
func newUID() types.UID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, as documented
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}
