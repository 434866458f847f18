package apiserver

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/request"
)

// decode reads the body as an object of this endpoint, in its stored version and with its defaults. Type and namespace
// must be those of the URL.
func (c *call) decode(ctx context.Context, data []byte, validation string) (registry.Object, error) {
	obj := c.resource.New()
	if err := c.decodeInto(data, validation, obj, c.endpoint.gvk(), c.resource.Decode); err != nil {
		return nil, err
	}
	own := obj.GetNamespace()
	stored, err := c.storedWithDefaults(ctx, obj)
	if err == nil {
		c.auditStoredBody(stored, own)
	}
	return stored, err
}

// storedWithDefaults converts a decoded object to its stored version and fills in its namespace and its defaults.
func (c *call) storedWithDefaults(ctx context.Context, obj registry.Object) (registry.Object, error) {
	if err := c.canceled(); err != nil {
		return nil, err
	}
	if err := request.InNamespace(obj, c.namespace()); err != nil {
		return nil, err
	}
	stored, err := c.resource.ToStored(ctx, obj)
	if err != nil {
		return nil, err
	}
	if c.resource.Rules.Default != nil {
		c.resource.Rules.Default(stored)
	}
	return stored, nil
}

// decodeInto decodes a body that must be of type want, and does the field validation that the request asks for. custom is
// the kind's own decoding, or nil.
func (c *call) decodeInto(data []byte, validation string, into runtime.Object, want schema.GroupVersionKind, custom customDecode) error {
	m, err := contentType(c.r)
	if err == nil && m == mediaProtobuf && custom != nil {
		types := slices.DeleteFunc(offered(c.r), func(m string) bool { return mediaType(m) == mediaProtobuf })
		err = unsupportedMedia(types)
	}
	if err == nil {
		err = c.canceled() // the body may have taken long to arrive
	}
	if err != nil {
		return err
	}
	got, strict, err := c.backend.decoder.decode(m, data, into, want, custom)
	switch {
	case err == nil:
	case apierrors.IsRequestEntityTooLargeError(err):
		return err
	case runtime.IsMissingKind(err) && validation == metav1.FieldValidationIgnore:
		return undecodable(request.Complete(*got, want), want, err) // upstream's lenient reader fails elsewhere
	case got == nil, runtime.IsMissingKind(err):
		return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, bodySummary(data)))
	case errors.Is(err, errConversion) && c.endpoint.serves(*got) && c.endpoint.serves(want):
		return versionMismatch(*got, want)
	default:
		return undecodable(*got, want, err)
	}
	if len(strict) > 0 {
		switch validation {
		case metav1.FieldValidationStrict:
			if custom != nil {
				want = *got // upstream has already made it one of that type
				if got.Version == "" && strings.HasPrefix(strict[0].Error(), "duplicate field") {
					return apierrors.NewBadRequest(runtime.NewMissingVersionErr("object has no apiVersion field").Error())
				}
			}
			return undecodable(*got, want, runtime.NewStrictDecodingError(strict))
		case "", metav1.FieldValidationWarn:
			c.warnStrict(strict)
		}
	}
	if custom != nil && got.GroupVersion() != want.GroupVersion() {
		return versionMismatch(*got, want)
	}
	c.auditBody(want, into)
	return nil
}

func undecodable(got, want schema.GroupVersionKind, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", got.Kind, got.Version, want.Kind, err))
}

// bodySummary is the beginning of a body, for an error.
func bodySummary(data []byte) string {
	const limit = 30
	head, more := data, ""
	if len(head) > limit {
		head, more = head[:limit], " ..."
	}
	switch {
	case len(data) == 0:
		return "<empty>"
	case data[0] == '{':
		return string(head) + more
	}
	return hex.EncodeToString(head) + more
}

// isDryRun tells whether a request asks not to be persisted.
func isDryRun(dryRun []string) bool { return len(dryRun) > 0 }

// warnStrict warns of what a lenient decoding ignored.
func (c *call) warnStrict(strict []error) {
	for _, err := range strict {
		// YAML reports several at once.
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: unmarshal errors:\n")
		for line := range strings.SplitSeq(text, "\n") {
			c.warn(strings.TrimSpace(line))
		}
	}
}
