package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/controllers"
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

// encrypt puts encryption, if it is asked for, over the store that the options ask for, which it opens where the cluster
// would have. What polls plugins and the file is added to beside.
func (s *settings) encrypt(ctx context.Context, o *cluster.Options, beside *[]controllers.Runnable) (closeLayer func() error, err error) {
	none := func() error { return nil }
	if s.encryption.file == "" {
		return none, nil
	}
	log := s.logger()
	file, err := config.Open(s.encryption.file, located(o.Kinds), config.Options{Reload: s.encryption.reload, Logger: log})
	if err != nil {
		return none, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	if err := await(ctx, file); err != nil {
		return none, errors.Join(err, file.Close())
	}
	inner, closeInner := o.Store, none
	switch {
	case inner != nil:
	case o.Dir != "":
		store, err := wal.Open(o.Dir, wal.Options{Logger: log})
		if err != nil {
			return none, errors.Join(err, file.Close())
		}
		inner, closeInner = store, store.Close
	default:
		store := memory.New(memory.Options{})
		inner, closeInner = store, store.Close
	}
	o.Dir, o.Store = "", encryption.New(inner, encryption.Moved(file, registry.Root, s.backendPrefix()))
	*beside = append(*beside, file)
	return func() error { return errors.Join(closeInner(), file.Close()) }, nil
}

// pluginPatience is how long a KMS plugin may take to be there at a start.
const pluginPatience = 10 * time.Second

// await waits for plugins: without them, what they encrypted could not be read.
func await(ctx context.Context, file *config.File) error {
	ctx, cancel := context.WithTimeout(ctx, pluginPatience)
	defer cancel()
	if err := file.Await(ctx); err != nil {
		return fmt.Errorf("--encryption-provider-config: start the KMS plugin first: %w", err)
	}
	return nil
}

// backendPrefix is what the keys of the store's records start with where they are kept.
func (s *settings) backendPrefix() string {
	if s.storage == "etcd" {
		return s.etcd.prefix + "/"
	}
	return registry.Root
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
