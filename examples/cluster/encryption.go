package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/apiserver/health"
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

// encrypt puts encryption, if it is asked for, over the options' store. What polls plugins and the file is added to beside.
func (s *settings) encrypt(ctx context.Context, o *cluster.Options, beside *[]controllers.Runnable) (closeLayer func() error, err error) {
	if s.encryption.file == "" {
		return func() error { return nil }, nil
	}
	file, err := config.Open(s.encryption.file, located(o.Kinds), config.Options{Reload: s.encryption.reload, Logger: s.logger()})
	if err != nil {
		return nil, fmt.Errorf("--encryption-provider-config: %w", err)
	}
	if err := await(ctx, file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	o.Store = encryption.New(o.Store, encryption.Moved(file, registry.Root, s.backendPrefix()))
	o.Server.Checks = append(o.Server.Checks, health.Storage("kms-providers", file.Check))
	*beside = append(*beside, file)
	return file.Close, nil
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
