package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

const kind = "EncryptionConfiguration"

func groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "apiserver.config.k8s.io", Version: "v1"}
}

// parse reads and checks a configuration; name is the file's.
func parse(name string, data []byte, reload bool) (*configuration, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(groupVersion().WithKind(kind), &configuration{})
	// Upstream's documentation was wrong once.
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Version: "v1", Kind: "EncryptionConfig"}, &configuration{})
	if err := boundedyaml.Check(data, boundedyaml.Limit); errors.Is(err, boundedyaml.ErrTooLarge) || errors.Is(err, boundedyaml.ErrTooDeep) {
		return nil, fmt.Errorf("error decoding encryption provider configuration file %q: %w", name, err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	o, _, err := decoder.Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("error decoding encryption provider configuration file %q: %w", name, redacted(err, data))
	}
	c, ok := o.(*configuration)
	if !ok {
		return nil, fmt.Errorf("got unexpected config type: %T", o)
	}
	setDefaults(c)
	return c, validate(c, reload).ToAggregate()
}

func setDefaults(c *configuration) {
	for i := range c.Resources {
		for _, p := range c.Resources[i].Providers {
			if p.KMS == nil {
				continue
			}
			if p.KMS.Timeout == nil {
				p.KMS.Timeout = &metav1.Duration{Duration: 3 * time.Second}
			}
			if p.KMS.APIVersion == "" {
				p.KMS.APIVersion = "v1"
			}
			if p.KMS.CacheSize == nil && p.KMS.APIVersion == "v1" {
				size := int32(1000)
				p.KMS.CacheSize = &size
			}
		}
	}
}

// keyPattern is the shortest run of base64 that may be a key: no one of upstream's is shorter.
const keyPattern = `[A-Za-z0-9+/]{16,}={0,2}`

// redacted is a decoder's error without what may be a key: some repeat what they could not read.
func redacted(err error, data []byte) error {
	switch {
	case runtime.IsMissingKind(err):
		return errors.New("Object 'Kind' is missing") //nolint:staticcheck // upstream's words
	case runtime.IsMissingVersion(err):
		return errors.New("Object 'apiVersion' is missing") //nolint:staticcheck // upstream's words
	}
	text := []byte(err.Error())
	for _, word := range regexp.MustCompile(keyPattern).FindAll(data, -1) {
		if runtime.IsNotRegisteredError(err) && !bytes.ContainsAny(word, "0123456789+/=") {
			continue // a kind
		}
		text = bytes.ReplaceAll(text, word, []byte("REDACTED"))
	}
	return errors.New(string(text))
}
