package config

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/aes"
	"github.com/keelson-dev/keelson/storage/encryption/kms"
	"github.com/keelson-dev/keelson/storage/encryption/secretbox"
)

// set is the transformers that one content of a file asks for.
type set struct {
	byResource map[resource]encryption.Transformer
	plugins    []plugin
	timeouts   time.Duration // of all plugins
}

type plugin struct {
	*kms.Provider
	client *kms.Client
}

// build makes the transformers. It asks no plugin.
func build(c *configuration, log *slog.Logger) (*set, error) {
	s := &set{byResource: map[resource]encryption.Transformer{}}
	choices := map[resource][]encryption.Choice{}
	for _, r := range c.Resources {
		list, err := s.choices(r.Providers, log)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		for _, name := range r.Resources {
			at := parseResource(name)
			for _, wider := range []resource{{group: at.group, name: "*"}, everything()} {
				if _, masked := choices[wider]; masked {
					return nil, errors.Join(fmt.Errorf("resource %q is masked by earlier rule %q", at, wider), s.close())
				}
			}
			choices[at] = append(choices[at], list...)
		}
	}
	for at, list := range choices {
		s.byResource[at] = encryption.FirstOf(errors.New("no matching prefix found"), list...)
	}
	return s, nil
}

func (s *set) choices(providers []provider, log *slog.Logger) ([]encryption.Choice, error) {
	var list []encryption.Choice
	for _, p := range providers {
		var c encryption.Choice
		var err error
		switch {
		case p.AESGCM != nil:
			c, err = choice("k8s:enc:aesgcm:v1:", "AES", p.AESGCM.Keys, aes.NewGCM)
		case p.AESCBC != nil:
			c, err = choice("k8s:enc:aescbc:v1:", "AES", p.AESCBC.Keys, aes.NewCBC)
		case p.Secretbox != nil:
			c, err = choice("k8s:enc:secretbox:v1:", "Secretbox", p.Secretbox.Keys, secretbox.New)
		case p.KMS != nil:
			c, err = s.kms(p.KMS, log)
		default:
			c = encryption.Choice{Transformer: encryption.Identity{}}
		}
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// choice is a provider of named keys.
func choice(prefix, what string, keys []key, newTransformer func([]byte) (encryption.Transformer, error)) (encryption.Choice, error) {
	var list []encryption.Choice
	for _, k := range keys {
		secret, err := base64.StdEncoding.DecodeString(k.Secret)
		if err != nil {
			return encryption.Choice{}, fmt.Errorf("could not obtain secret for named key %s: %w", k.Name, err)
		}
		t, err := newTransformer(secret)
		if err != nil {
			return encryption.Choice{}, fmt.Errorf("error while creating cipher for named key %s: %w", k.Name, err)
		}
		list = append(list, encryption.Choice{Prefix: k.Name + ":", Transformer: t})
	}
	none := fmt.Errorf("no matching key was found for the provided %s transformer", what)
	return encryption.Choice{Prefix: prefix, Transformer: encryption.FirstOf(none, list...)}, nil
}

func (s *set) kms(c *kmsProvider, log *slog.Logger) (encryption.Choice, error) {
	if c.APIVersion != "v2" {
		return encryption.Choice{}, fmt.Errorf("KMS provider %q: %w", c.Name, ErrKMSv1)
	}
	client, err := kms.Dial(c.Endpoint, c.Timeout.Duration)
	if err != nil {
		return encryption.Choice{}, fmt.Errorf("could not configure KMSv2-Plugin's probe %q, error: %w", c.Name, err)
	}
	p := plugin{kms.New(c.Name, client, kms.Options{Logger: log}), client}
	s.plugins = append(s.plugins, p)
	s.timeouts += c.Timeout.Duration
	return encryption.Choice{Prefix: "k8s:enc:kms:v2:" + c.Name + ":", Transformer: p.Provider}, nil
}

// transformer of a resource: the rule that names it, or its group, or everything.
func (s *set) transformer(group, name string) encryption.Transformer {
	for _, r := range [...]resource{{group, name}, {group, "*"}, {"*", "*"}} {
		if t := s.byResource[r]; t != nil {
			return t
		}
	}
	return encryption.Identity{}
}

// check asks all plugins, at once, how they are.
func (s *set) check(ctx context.Context) error {
	wrong := make([]error, len(s.plugins))
	var wg sync.WaitGroup
	for i, p := range s.plugins {
		wg.Go(func() {
			if err := p.Check(ctx); err != nil {
				wrong[i] = fmt.Errorf("kms-provider-%d: %w", i, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(wrong...)
}

// await asks until all plugins are well, or the context ends.
func (s *set) await(ctx context.Context) error {
	var told error
	for {
		err := s.check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || told == nil {
			told = err // and not only that it was too late
		}
		timer := time.NewTimer(500 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return told
		}
	}
}

// run polls all plugins until the context ends.
func (s *set) run(ctx context.Context) error {
	errs := make([]error, len(s.plugins))
	var wg sync.WaitGroup
	for i, p := range s.plugins {
		wg.Go(func() { errs[i] = p.Run(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// close ends the connections to plugins.
func (s *set) close() error {
	var errs []error
	for _, p := range s.plugins {
		errs = append(errs, p.client.Close())
	}
	return errors.Join(errs...)
}
