package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/apps"
	"github.com/keelson-dev/keelson/registry/coordination"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/discovery"
	"github.com/keelson-dev/keelson/registry/networking"
	"github.com/keelson-dev/keelson/registry/policy"
	"github.com/keelson-dev/keelson/registry/rbac"
	"github.com/keelson-dev/keelson/registry/scheduling"
	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/config"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/wal"
)

// encryptionSettings are what the flags say of encryption at rest. The flags are kube-apiserver's.
type encryptionSettings struct {
	file   string
	reload bool
}

func (e *encryptionSettings) define(f *flag.FlagSet) {
	f.StringVar(&e.file, "encryption-provider-config", "", "")
	f.BoolVar(&e.reload, "encryption-provider-config-automatic-reload", false, "")
}

func (e *encryptionSettings) check() error {
	if e.reload && e.file == "" {
		return errors.New("--encryption-provider-config-automatic-reload is about --encryption-provider-config: add it")
	}
	return nil
}

// encrypted is the layer of encryption over a cluster's store, and the store where that is its own.
type encrypted struct {
	file  *config.File
	inner func() error
}

// Run polls plugins and, where that is asked for, the file.
func (e encrypted) Run(ctx context.Context) error { return e.file.Run(ctx) }

// Close ends what the cluster does not end.
func (e encrypted) Close() error { return errors.Join(e.inner(), e.file.Close()) }

// backendPrefix is what the keys of the store's records start with where they are kept.
func (s *settings) backendPrefix() string {
	if s.storage == "etcd" {
		return s.etcd.prefix + "/"
	}
	return registry.Root
}

// layer puts encryption over the store that the options ask for; prefix is what the backend's keys start
// with in place of registry.Root.
func (e *encryptionSettings) layer(o *cluster.Options, prefix string, log *slog.Logger) (encrypted, error) {
	on := encrypted{inner: func() error { return nil }}
	var err error
	if on.file, err = config.Open(e.file, located(o.Kinds), config.Options{Reload: e.reload, Logger: log}); err != nil {
		return on, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	switch {
	case o.Store != nil:
	case o.Dir != "":
		store, err := wal.Open(o.Dir, wal.Options{Logger: log})
		if err != nil {
			return on, errors.Join(err, on.file.Close())
		}
		o.Store, o.Dir, on.inner = store, "", store.Close
	default:
		store := memory.New(memory.Options{})
		o.Store, on.inner = store, store.Close
	}
	o.Store = encryption.New(o.Store, encryption.Moved(on.file, registry.Root, prefix))
	return on, nil
}

// located tells where the kinds that are served have their records.
func located(more []registry.Kind) config.Locate {
	kinds := append(core.Kinds(core.Options{}), apps.Kinds()...)
	kinds = append(kinds, coordination.Kinds()...)
	kinds = append(kinds, discovery.Kinds()...)
	kinds = append(kinds, networking.Kinds()...)
	kinds = append(kinds, policy.Kinds()...)
	kinds = append(kinds, rbac.Kinds(nil)...)
	kinds = append(kinds, scheduling.Kinds()...)
	var resources []config.Resource
	for _, k := range append(kinds, more...) {
		if k.Answer == nil && k.Read == nil {
			resources = append(resources, config.Resource{
				Group: k.GroupVersion.Group, Name: k.Plural, Prefix: registry.Root + k.Prefix + "/",
			})
		}
	}
	return config.Prefixes(registry.Root, resources)
}
