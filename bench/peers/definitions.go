package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/provider"
)

// ofDefinition returns the resource that provider.Definition(n) defines.
func ofDefinition(n int) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "example.com", Version: provider.Version, Resource: provider.Definition(n).Spec.Names.Plural}
}

// definitions measures how long a new custom kind takes until it can be used, one after the other and many at once, and
// what idle ones take.
func (m *measurement) definitions(ctx context.Context) error {
	var took [2][]float64
	err := m.inTurn(m.rounds, func(round, i int, s *side) error {
		began := time.Now()
		if err := s.define(ctx, round); err != nil {
			return err
		}
		took[i] = append(took[i], milliseconds(time.Since(began)))
		return nil
	})
	if err != nil {
		return err
	}
	m.row(evidence.Peer{Name: "definition", What: "a definition posted, established, in discovery and OpenAPI v3, first object created", Unit: "ms", Of: "median", Runs: m.rounds},
		[2]float64{median(took[0]), median(took[1])})
	var memory [2]float64
	var each [2]float64
	err = m.inTurn(1, func(_, i int, s *side) error {
		grown, err := m.grown(ctx, s, func() error {
			began := time.Now()
			err := s.defineMany(ctx, m.rounds, m.many)
			each[i] = milliseconds(time.Since(began)) / float64(m.many)
			return err
		})
		memory[i] = grown / 1e3 / float64(m.many)
		return err
	})
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d definitions of 23 kB, posted one after the other, until all are established", m.many)
	m.row(evidence.Peer{Name: "definitions", What: what + "; each", Unit: "ms"}, each)
	m.row(evidence.Peer{Name: "definitions-memory", What: fmt.Sprintf("resident memory for each %.0f s later, idle", m.quiet.Seconds()), Unit: "kB"}, memory)
	return nil
}

// customObjects measures the memory for objects that are kept.
func (m *measurement) customObjects(ctx context.Context) error {
	var memory [2]float64
	err := m.inTurn(1, func(_, i int, s *side) error {
		c, err := customCalls(s, "")
		if err != nil {
			return err
		}
		grown, err := m.grown(ctx, s, func() error {
			for n := range m.objects {
				if err := c.create(ctx, n); err != nil {
					return err
				}
			}
			return nil
		})
		memory[i] = grown / 1e3 / float64(m.objects)
		return err
	})
	if err != nil {
		return err
	}
	m.row(evidence.Peer{
		Name: "custom-memory", What: fmt.Sprintf("resident memory for each of %d custom objects of 2 kB %.0f s after they were created", m.objects, m.quiet.Seconds()), Unit: "kB",
	}, memory)
	return nil
}

// grown returns by how many bytes the resident memory of a side has grown some time after work.
func (m *measurement) grown(ctx context.Context, s *side, work func() error) (float64, error) {
	before, err := s.resident()
	if err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	if err := pause(ctx, m.quiet); err != nil {
		return 0, err
	}
	after, err := s.resident()
	return float64(after - before), err
}

func (s *side) resident() (int64, error) {
	processes, err := s.plane.processes()
	if err != nil {
		return 0, err
	}
	return residentOf(processes)
}

// define posts definition number n and uses its kind as soon as the server publishes it.
func (s *side) define(ctx context.Context, n int) error {
	if err := s.defineMany(ctx, n, 1); err != nil {
		return err
	}
	of := ofDefinition(n)
	err := soon(ctx, "discovery", func(context.Context) error {
		list, err := s.api.Discovery().ServerResourcesForGroupVersion(of.GroupVersion().String())
		if err != nil {
			return err
		}
		for _, r := range list.APIResources {
			if r.Name == of.Resource {
				return nil
			}
		}
		return fmt.Errorf("%s is not in discovery", of.Resource)
	})
	if err != nil {
		return err
	}
	err = soon(ctx, "OpenAPI", func(context.Context) error {
		paths, err := s.api.Discovery().OpenAPIV3().Paths()
		if err != nil {
			return err
		}
		document, ok := paths["apis/"+of.GroupVersion().String()]
		if !ok {
			return fmt.Errorf("%s is not in OpenAPI", of.GroupVersion())
		}
		text, err := document.Schema("application/json")
		if err == nil && !strings.Contains(string(text), "/"+of.Resource+"/") {
			err = fmt.Errorf("%s is not in OpenAPI", of.Resource)
		}
		return err
	})
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(s.plane.config)
	if err != nil {
		return err
	}
	return soon(ctx, "the first object", func(ctx context.Context) error {
		_, err := objects.Resource(of).Create(ctx, provider.Object(n, "first"), metav1.CreateOptions{})
		return err
	})
}

// defineMany posts definitions, beginning with number first, and waits until all are established.
func (s *side) defineMany(ctx context.Context, first, count int) error {
	api, err := clientset.NewForConfig(s.plane.config)
	if err != nil {
		return err
	}
	definitions := api.ApiextensionsV1().CustomResourceDefinitions()
	missing := map[string]bool{}
	var version string
	for n := range count {
		crd, err := definitions.Create(ctx, provider.Definition(first+n), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		missing[crd.Name] = true
		if version == "" {
			version = crd.ResourceVersion
		}
	}
	o := metav1.ListOptions{ResourceVersion: version}
	if count == 1 {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", provider.Definition(first).Name).String()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w, err := definitions.Watch(ctx, o)
	if err != nil {
		return err
	}
	defer w.Stop()
	// The first has been created at the version from which changes are watched.
	for e := range w.ResultChan() {
		if crd, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition); ok && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			if delete(missing, crd.Name); len(missing) == 0 {
				return nil
			}
		}
	}
	return fmt.Errorf("%d of %d definitions have not been established", len(missing), count)
}

// customCalls returns requests for objects of definition number 0, which has been posted. They are cluster-scoped; the
// namespace is part of their names.
func customCalls(s *side, namespace string) (calls, error) {
	client, err := dynamic.NewForConfig(s.plane.config)
	if err != nil {
		return calls{}, err
	}
	objects := client.Resource(ofDefinition(0))
	name := func(n int) string { return strings.TrimPrefix(fmt.Sprintf("%s-%05d", namespace, n), "-") }
	known := map[int]*unstructured.Unstructured{}
	keep := func(n int, u *unstructured.Unstructured, err error) error { known[n] = u; return err }
	return calls{
		create: func(ctx context.Context, n int) error {
			u, err := objects.Create(ctx, provider.Object(0, name(n)), metav1.CreateOptions{})
			return keep(n, u, err)
		},
		get: func(ctx context.Context, n int) error {
			_, err := objects.Get(ctx, name(n), metav1.GetOptions{})
			return err
		},
		list: func(ctx context.Context) error { _, err := objects.List(ctx, metav1.ListOptions{}); return err },
		patch: func(ctx context.Context, n int) error {
			u, err := objects.Patch(ctx, name(n), types.MergePatchType, patchOf(n), metav1.PatchOptions{})
			return keep(n, u, err)
		},
		update: func(ctx context.Context, n int) error {
			known[n].SetLabels(map[string]string{"round": fmt.Sprintf("u%d", n)})
			u, err := objects.Update(ctx, known[n], metav1.UpdateOptions{})
			return keep(n, u, err)
		},
		apply: func(ctx context.Context, n int) error {
			_, err := objects.Apply(ctx, name(n), provider.Object(0, name(n)), metav1.ApplyOptions{FieldManager: "applier", Force: true})
			return err
		},
	}, nil
}
