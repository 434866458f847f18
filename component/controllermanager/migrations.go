package controllermanager

import (
	"context"
	"errors"
	"maps"
	"slices"

	svmv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/controllers/storageversionmigrator"
	"github.com/keelson-dev/keelson/lifecycle"
)

func newStorageVersionMigrator(p *component.Parts) (lifecycle.Runnable, error) {
	in := storageversionmigrator.Sources{Migrations: component.Informer[*svmv1.StorageVersionMigration](
		p.Informers, svmv1.SchemeGroupVersion.WithResource("storageversionmigrations"))}
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	find := migratable(p.Cluster)
	return lifecycle.Group(
		p.Loop(storageversionmigrator.NewRunner(in, p.Client)),
		p.Loop(storageversionmigrator.NewVersions(in, p.Client, find)),
		p.Loop(storageversionmigrator.New(in, p.Client, find)),
	), nil
}

// migratable finds the resources that are served.
func migratable(c component.Cluster) storageversionmigrator.Find {
	return func(ctx context.Context, gr schema.GroupResource) (storageversionmigrator.Resource, bool, error) {
		all, err := c.Resources(ctx)
		for _, r := range all {
			if r.GroupResource() == gr {
				return storageversionmigrator.Resource{GroupVersionResource: r.GroupVersionResource, Kind: r.Kind}, true, nil
			}
		}
		partial, ok := errors.AsType[component.Undiscovered](err)
		if ok && !slices.ContainsFunc(slices.Collect(maps.Keys(partial)), func(gv schema.GroupVersion) bool { return gv.Group == gr.Group }) {
			err = nil // of other groups
		}
		return storageversionmigrator.Resource{}, false, err
	}
}
