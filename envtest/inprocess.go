package envtest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/keelson-dev/keelson/internal/boundedyaml"
	"github.com/keelson-dev/keelson/pki"
)

const (
	// localHost is where webhooks seem to be served. A name would have to be looked up: what package net makes for that belongs
	// to the bubble of the first lookup, and the next bubble's would end the program.
	localHost       = "127.0.0.1"
	certificateLife = 7 * 24 * time.Hour
)

// installInProcess does what upstream's Environment.Start does in a running cluster, without a network.
func installInProcess(e *envtest.Environment) error {
	if e.Scheme == nil {
		e.Scheme = scheme.Scheme
	}
	hooks := &e.WebhookInstallOptions
	if err := serveLocally(hooks); err != nil {
		return err
	}
	for _, path := range hooks.Paths {
		if err := readWebhooks(path, hooks); err != nil && !(hooks.IgnoreErrorIfPathMissing && errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	if err := hooks.ModifyWebhookDefinitions(); err != nil {
		return err
	}
	crds := &e.CRDInstallOptions
	if crds.Scheme == nil {
		crds.Scheme = e.Scheme
	}
	named := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, d := range slices.Concat(crds.CRDs, e.CRDs) {
		named[d.Name] = d.DeepCopy()
	}
	crds.CRDs = slices.Collect(maps.Values(named))
	crds.Paths = slices.Compact(slices.Sorted(slices.Values(slices.Concat(crds.Paths, e.CRDDirectoryPaths))))
	crds.ErrorIfPathMissing = e.ErrorIfCRDPathMissing
	crds.WebhookOptions = *hooks
	var err error
	if e.CRDs, err = InstallCRDs(e.Config, *crds); err != nil {
		return fmt.Errorf("unable to install CRDs onto control plane: %w", err)
	}
	if err := hooks.Install(e.Config); err != nil {
		return fmt.Errorf("unable to install webhooks onto control plane: %w", err)
	}
	return nil
}

// serveLocally makes the certificate that suites start webhook servers with.
func serveLocally(o *WebhookInstallOptions) (err error) {
	if o.LocalServingHost == "" {
		o.LocalServingHost = localHost
	}
	if o.LocalServingCertDir, err = os.MkdirTemp("", "envtest-serving-certs-"); err != nil {
		return err
	}
	authority, err := pki.Open(o.LocalServingCertDir, "webhooks")
	if err != nil {
		return err
	}
	names := []string{"localhost", o.LocalServingHost}
	if o.LocalServingHostExternalName != "" {
		names = append(names, o.LocalServingHostExternalName)
	}
	o.LocalServingCAData = authority.PEM()
	_, err = authority.Keep("tls", pki.Subject{Name: "localhost", Hosts: names}, certificateLife)
	return err
}

// readWebhooks adds the configurations of webhooks in a file, or in the files of a directory.
func readWebhooks(path string, to *WebhookInstallOptions) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	files := []string{path}
	if info.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		files = nil
		for _, entry := range entries {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	for _, file := range files {
		if !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(file)) {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, document := range boundedyaml.Documents(data) {
			if err := addWebhook(document, to); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// addWebhook adds a configuration of webhooks; objects of other kinds are skipped.
func addWebhook(document []byte, to *WebhookInstallOptions) error {
	var is metav1.PartialObjectMetadata
	if err := boundedyaml.Unmarshal(document, &is, boundedyaml.Limit); err != nil {
		return err
	}
	var err error
	switch is.Kind {
	case "MutatingWebhookConfiguration":
		c := &registrationv1.MutatingWebhookConfiguration{}
		err = boundedyaml.Unmarshal(document, c, boundedyaml.Limit)
		to.MutatingWebhooks = append(to.MutatingWebhooks, c)
	case "ValidatingWebhookConfiguration":
		c := &registrationv1.ValidatingWebhookConfiguration{}
		err = boundedyaml.Unmarshal(document, c, boundedyaml.Limit)
		to.ValidatingWebhooks = append(to.ValidatingWebhooks, c)
	default:
		return nil
	}
	if err == nil && is.APIVersion != registrationv1.SchemeGroupVersion.String() {
		err = fmt.Errorf("only v1 is supported right now for %s (name: %s)", is.Kind, is.Name)
	}
	return err
}
