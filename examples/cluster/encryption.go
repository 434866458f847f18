package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/apiserver/health"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/storage/encryption"
	"github.com/keelson-dev/keelson/storage/encryption/config"
)

// encryptionSettings are the flags for encryption at rest. They are kube-apiserver's.
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
		return errors.New("--encryption-provider-config-automatic-reload needs --encryption-provider-config: add it")
	}
	return nil
}

// encrypt wraps the options' store with encryption, if requested. What polls plugins and the file is appended to
// beside.
func (s *settings) encrypt(ctx context.Context, o *cluster.Options, beside *[]lifecycle.Runnable) (closeLayer func() error, err error) {
	if s.encryption.file == "" {
		return func() error { return nil }, nil
	}
	locate, err := located(*o)
	if err != nil {
		return nil, err
	}
	file, err := config.Open(s.encryption.file, locate, config.Options{Reload: s.encryption.reload, Logger: s.logger()})
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

// pluginPatience is how long to wait for a KMS plugin at startup.
const pluginPatience = 10 * time.Second

// await waits for plugins: without them, the data they encrypted could not be read.
func await(ctx context.Context, file *config.File) error {
	ctx, cancel := context.WithTimeout(ctx, pluginPatience)
	defer cancel()
	if err := file.Await(ctx); err != nil {
		return fmt.Errorf("--encryption-provider-config: start the KMS plugin first: %w", err)
	}
	return nil
}

// backendPrefix is the prefix of the store's keys in its backend.
func (s *settings) backendPrefix() string {
	if s.storage == "etcd" {
		return s.etcd.prefix + "/"
	}
	return registry.Root
}

// located returns where the kinds served by a cluster with these options keep their records. The cluster is never run
// and its store is not durable, but it knows its kinds.
func located(o cluster.Options) (config.Locate, error) {
	c, err := cluster.New(cluster.Options{Kinds: o.Kinds, Extensions: o.Extensions})
	if err != nil {
		return nil, err
	}
	var resources []config.Resource
	for _, r := range c.Registry().Resources() {
		if r.Stored() {
			resources = append(resources, config.Resource{Group: r.GroupVersion.Group, Name: r.Plural, Prefix: registry.Root + r.Prefix + "/"})
		}
	}
	return config.Prefixes(registry.Root, resources), c.Close()
}
