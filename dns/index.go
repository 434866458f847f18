package dns

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/keelson-dev/keelson/informer"
)

// Sources are the informers of an Index, which somebody runs. They may be shared with others.
type Sources struct {
	Services       *informer.Informer[*corev1.Service]
	EndpointSlices *informer.Informer[*discoveryv1.EndpointSlice]
	Namespaces     *informer.Informer[*corev1.Namespace]
}

// Index finds services and their endpoints by name and address. It copies nothing: its entries are hashes that lead to
// the objects in the informers' caches. Make one with NewIndex.
type Index struct {
	in   Sources
	seed maphash.Seed

	mu        sync.RWMutex // guards the three below
	clusterIP buckets[*corev1.Service]
	ofService buckets[*discoveryv1.EndpointSlice]
	address   buckets[*discoveryv1.EndpointSlice]

	// modified is the Unix time of the last change of a service or endpoint slice.
	modified   atomic.Int64
	synced     []<-chan struct{}
	unregister []func()
}

// NewIndex makes an index that follows the informers from now on. Close ends that.
func NewIndex(in Sources) *Index {
	x := &Index{
		in: in, seed: maphash.MakeSeed(), clusterIP: buckets[*corev1.Service]{},
		ofService: buckets[*discoveryv1.EndpointSlice]{}, address: buckets[*discoveryv1.EndpointSlice]{},
	}
	services := in.Services.AddHandler(informer.Handler[*corev1.Service]{
		Changed: func(c informer.Change[*corev1.Service]) { follow(x, c, x.fileService) },
	})
	endpoints := in.EndpointSlices.AddHandler(informer.Handler[*discoveryv1.EndpointSlice]{
		Changed: func(c informer.Change[*discoveryv1.EndpointSlice]) { follow(x, c, x.fileSlice) },
	})
	x.synced = []<-chan struct{}{services.Synced(), endpoints.Synced(), in.Namespaces.Synced()}
	x.unregister = []func(){services.Remove, endpoints.Remove}
	return x
}

// Close ends following the informers. The index then becomes out of date.
func (x *Index) Close() {
	for _, remove := range x.unregister {
		remove()
	}
}

// Synced reports whether the index knows all that was there when the informers began. Until then what it does not find
// may exist.
func (x *Index) Synced() bool {
	for _, done := range x.synced {
		select {
		case <-done:
		default:
			return false
		}
	}
	return true
}

// serial is the serial number of the zone's data: the time of its last change.
func (x *Index) serial() uint32 { return uint32(x.modified.Load()) } //nolint:gosec // serial numbers wrap around

// follow files an object as it changes.
func follow[T informer.Object](x *Index, c informer.Change[T], file func(obj T, op func(b bucketOp))) {
	if c.Same {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.modified.Store(time.Now().Unix())
	if c.Type == informer.Modified {
		file(c.Old, bucketOp.remove)
	}
	if c.Type == informer.Deleted {
		file(c.Object, bucketOp.remove)
		return
	}
	file(c.Object, bucketOp.add)
}

// fileService calls op for each entry of a service.
func (x *Index) fileService(s *corev1.Service, op func(bucketOp)) {
	for _, ip := range s.Spec.ClusterIPs {
		if ip != corev1.ClusterIPNone {
			op(entry[*corev1.Service]{x.clusterIP, maphash.String(x.seed, ip), s})
		}
	}
}

// fileSlice calls op for each entry of an endpoint slice.
func (x *Index) fileSlice(s *discoveryv1.EndpointSlice, op func(bucketOp)) {
	if name := s.Labels[discoveryv1.LabelServiceName]; name != "" {
		op(entry[*discoveryv1.EndpointSlice]{x.ofService, x.hash(s.Namespace, name), s})
	}
	for i := range s.Endpoints {
		if !ready(&s.Endpoints[i]) {
			continue
		}
		for _, ip := range s.Endpoints[i].Addresses {
			op(entry[*discoveryv1.EndpointSlice]{x.address, maphash.String(x.seed, ip), s})
		}
	}
}

func (x *Index) hash(namespace, name string) uint64 {
	return maphash.Comparable(x.seed, [2]string{namespace, name})
}

// ready reports whether an endpoint has names. Unknown counts as ready.
func ready(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

// service returns the service of that name.
func (x *Index) service(namespace, name string) (*corev1.Service, bool) {
	return x.in.Services.Get(namespace, name)
}

// namespace reports whether there is such a namespace.
func (x *Index) namespace(name string) bool {
	_, ok := x.in.Namespaces.Get("", name)
	return ok
}

// slices returns the endpoint slices of a service, ordered by name.
func (x *Index) slices(namespace, service string) []*discoveryv1.EndpointSlice {
	return x.find(x.ofService, x.hash(namespace, service), func(s *discoveryv1.EndpointSlice) bool {
		return s.Namespace == namespace && s.Labels[discoveryv1.LabelServiceName] == service
	})
}

// slicesAt returns the endpoint slices that list an address as ready, ordered by namespace and name.
func (x *Index) slicesAt(ip string) []*discoveryv1.EndpointSlice {
	return x.find(x.address, maphash.String(x.seed, ip), func(s *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
			return ready(&e) && slices.Contains(e.Addresses, ip)
		})
	})
}

func (x *Index) find(in buckets[*discoveryv1.EndpointSlice], hash uint64, want func(*discoveryv1.EndpointSlice) bool) []*discoveryv1.EndpointSlice {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []*discoveryv1.EndpointSlice
	for n := in[hash]; n != nil; n = n.next {
		if want(n.obj) {
			all = append(all, n.obj)
		}
	}
	if len(all) > 1 {
		slices.SortFunc(all, compare)
		all = slices.Compact(all) // an address may stand in a slice repeatedly
	}
	return all
}

// serviceAt returns the service with a cluster IP. No two have the same.
func (x *Index) serviceAt(ip string) (*corev1.Service, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for n := x.clusterIP[maphash.String(x.seed, ip)]; n != nil; n = n.next {
		if slices.Contains(n.obj.Spec.ClusterIPs, ip) {
			return n.obj, true
		}
	}
	return nil, false
}
