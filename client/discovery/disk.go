package discovery

import (
	"context"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgo "k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
)

// onDisk is client-go's cache, protected from paths chosen by a server: the cache builds file names from the names of
// groups and versions unchecked, including "../..".
type onDisk struct{ *disk.CachedDiscoveryClient }

var (
	_ clientgo.CachedDiscoveryInterface            = onDisk{}
	_ clientgo.CachedDiscoveryInterfaceWithContext = onDisk{}
)

// ServerResourcesForGroupVersion is that of the WithContext without one.
func (d onDisk) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	return d.ServerResourcesForGroupVersionWithContext(context.Background(), groupVersion)
}

// ServerResourcesForGroupVersionWithContext refuses names that lead out of the cache.
func (d onDisk) ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	if groupVersion != "" && !filepath.IsLocal(groupVersion) {
		return nil, fmt.Errorf("the server's group and version %q are no names: they lead out of the cache", groupVersion)
	}
	return d.CachedDiscoveryClient.ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
}

// The rest is as in the cache, which calls itself, not this wrapper, for each group.

// ServerGroupsAndResources is that of the WithContext without one.
func (d onDisk) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return d.ServerGroupsAndResourcesWithContext(context.Background())
}

// ServerGroupsAndResourcesWithContext asks for all groups.
func (d onDisk) ServerGroupsAndResourcesWithContext(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return clientgo.ServerGroupsAndResourcesWithContext(ctx, d)
}

// ServerPreferredResources is that of the WithContext without one.
func (d onDisk) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	return d.ServerPreferredResourcesWithContext(context.Background())
}

// ServerPreferredResourcesWithContext asks for all groups.
func (d onDisk) ServerPreferredResourcesWithContext(ctx context.Context) ([]*metav1.APIResourceList, error) {
	return clientgo.ServerPreferredResourcesWithContext(ctx, d)
}

// ServerPreferredNamespacedResources is that of the WithContext without one.
func (d onDisk) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	return d.ServerPreferredNamespacedResourcesWithContext(context.Background())
}

// ServerPreferredNamespacedResourcesWithContext asks for all groups.
func (d onDisk) ServerPreferredNamespacedResourcesWithContext(ctx context.Context) ([]*metav1.APIResourceList, error) {
	return clientgo.ServerPreferredNamespacedResourcesWithContext(ctx, d)
}
