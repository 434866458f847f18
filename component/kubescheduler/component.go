package kubescheduler

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/events"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/budgets"
	"github.com/keelson-dev/keelson/scheduler/devices"
	"github.com/keelson-dev/keelson/scheduler/groups"
	"github.com/keelson-dev/keelson/scheduler/plugins"
	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// Name is the component's name.
const Name = "scheduler"

// Profile returns upstream's default profile without what needs the component's client and informers: its binder, and the
// other objects that its plugins read.
func Profile() scheduler.Profile {
	return scheduler.Profile{Plugins: plugins.Default()}
}

// Options configures the scheduler. The zero value uses upstream's default profile.
type Options struct {
	// Profile is the scheduler's profile; one without plugins gets those of upstream's default. Pods that its Binders
	// decline, or all pods if it has none, are bound by plugins.DefaultBinder, which need not be among them. Its plugins
	// get the component's volumes, groups, budgets and devices (plugins.WithVolumes, WithGroups, WithBudgets, WithDevices).
	Profile scheduler.Profile
	// Allocator chooses devices for resource claims; structured.New is upstream's. Without one, pods with resource claims are
	// refused.
	Allocator devices.Allocator
	// More are further profiles, of other scheduler names, which get the same.
	More []scheduler.Profile
	// InitialBackoff, MaxBackoff and Writes are those of scheduler.Options.
	InitialBackoff, MaxBackoff time.Duration
	Writes                     int
	// BindTimeout is that of volumes.Options.
	BindTimeout time.Duration
	// DeviceFindTimeout and DeviceBindTimeout are FindTimeout and BindTimeout of devices.Options.
	DeviceFindTimeout, DeviceBindTimeout time.Duration
	// OnDecision, if set, is called with every decision, as in scheduler.Options.
	OnDecision func(scheduler.Decision)
}

// Component returns the scheduler. If the process has a seed, it becomes the profile's.
func Component(o Options) component.Component {
	return component.Component{
		Name: Name, Program: "kube-scheduler", Source: cmp.Or(o.Profile.SchedulerName, scheduler.DefaultSchedulerName), Series: true,
		Identity: &authn.Identity{Name: "system:kube-scheduler", Groups: []string{authn.GroupAuthenticated}},
		New:      o.build,
	}
}

func (o Options) build(p *component.Parts) (lifecycle.Runnable, error) {
	in := scheduler.Sources{
		Pods:  core[*corev1.Pod](p, "pods"),
		Nodes: core[*corev1.Node](p, "nodes"),
	}
	storage := volumes.Sources{
		Nodes:       in.Nodes,
		Claims:      core[*corev1.PersistentVolumeClaim](p, "persistentvolumeclaims"),
		Volumes:     core[*corev1.PersistentVolume](p, "persistentvolumes"),
		Classes:     ofStorage[*storagev1.StorageClass](p, "storageclasses"),
		CSINodes:    ofStorage[*storagev1.CSINode](p, "csinodes"),
		CSIDrivers:  ofStorage[*storagev1.CSIDriver](p, "csidrivers"),
		Capacities:  ofStorage[*storagev1.CSIStorageCapacity](p, "csistoragecapacities"),
		Attachments: ofStorage[*storagev1.VolumeAttachment](p, "volumeattachments"),
	}
	disruptions := component.Informer[*policyv1.PodDisruptionBudget](p.Informers,
		policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"))
	related := groups.Sources{
		Namespaces:             core[*corev1.Namespace](p, "namespaces"),
		Services:               core[*corev1.Service](p, "services"),
		ReplicationControllers: core[*corev1.ReplicationController](p, "replicationcontrollers"),
		ReplicaSets:            component.Informer[*appsv1.ReplicaSet](p.Informers, appsv1.SchemeGroupVersion.WithResource("replicasets")),
		StatefulSets:           component.Informer[*appsv1.StatefulSet](p.Informers, appsv1.SchemeGroupVersion.WithResource("statefulsets")),
	}
	claims := o.claims(p, in.Nodes)
	if err := p.Informers.Err(); err != nil {
		return nil, err
	}
	v, g, b := volumes.New(storage, p.Client, volumes.Options{BindTimeout: o.BindTimeout}), groups.New(related), budgets.New(disruptions)
	in.Others = []scheduler.Objects{v, g, b}
	var d *devices.Devices
	if o.Allocator != nil {
		d = devices.New(claims, p.Client, o.Allocator, devices.Options{
			FindTimeout: o.DeviceFindTimeout, BindTimeout: o.DeviceBindTimeout, Waiting: waiting(p.Recorder),
		})
		in.Others = append(in.Others, d)
	}
	complete := func(profile scheduler.Profile) scheduler.Profile {
		if len(profile.Plugins) == 0 {
			profile.Plugins = plugins.Default()
		}
		profile.Plugins = plugins.WithBudgets(plugins.WithGroups(plugins.WithVolumes(profile.Plugins, v), g), b)
		if d != nil {
			profile.Plugins = plugins.WithDevices(profile.Plugins, d)
		}
		return bound(p, profile)
	}
	options := scheduler.Options{
		Settle: p.Pace.Settle / 2, InitialBackoff: o.InitialBackoff, MaxBackoff: o.MaxBackoff, Writes: o.Writes,
		OnDecision: o.OnDecision, Logger: p.Logger,
	}
	for _, profile := range o.More {
		options.More = append(options.More, complete(profile))
	}
	if p.Pace.InOrder() {
		options.Writes = 1
	}
	return scheduler.New(in, complete(o.Profile), p.Client, p.Recorder, options)
}

// bound gives a profile its binder, and the process's seed.
func bound(p *component.Parts, profile scheduler.Profile) scheduler.Profile {
	if p.Pace.InOrder() {
		profile.Seed = *p.Pace.Seed
	}
	binder := plugins.DefaultBinder{Client: p.Client}
	if !slices.ContainsFunc(profile.Plugins, func(e scheduler.Enabled) bool { return e.Plugin.Name() == binder.Name() }) {
		profile.Plugins = scheduler.With(profile.Plugins, scheduler.Enabled{Plugin: binder})
	}
	return profile
}

func core[T informer.Object](p *component.Parts, resource string) *informer.Informer[T] {
	return component.Informer[T](p.Informers, corev1.SchemeGroupVersion.WithResource(resource))
}

func ofStorage[T informer.Object](p *component.Parts, resource string) *informer.Informer[T] {
	return component.Informer[T](p.Informers, storagev1.SchemeGroupVersion.WithResource(resource))
}

// claims returns what is known of devices, if there is an allocator.
func (o Options) claims(p *component.Parts, nodes *informer.Informer[*corev1.Node]) devices.Sources {
	if o.Allocator == nil {
		return devices.Sources{}
	}
	return devices.Sources{
		Nodes:      nodes,
		Claims:     ofDevices[*resourcev1.ResourceClaim](p, "resourceclaims"),
		Slices:     ofDevices[*resourcev1.ResourceSlice](p, "resourceslices"),
		Classes:    ofDevices[*resourcev1.DeviceClass](p, "deviceclasses"),
		TaintRules: ofDevices[*resourcev1.DeviceTaintRule](p, "devicetaintrules"),
	}
}

func ofDevices[T informer.Object](p *component.Parts, resource string) *informer.Informer[T] {
	return component.Informer[T](p.Informers, resourcev1.SchemeGroupVersion.WithResource(resource))
}

// waiting tells of pods whose devices take time to be ready.
func waiting(r events.Recorder) func(pod *corev1.Pod, node string) {
	return func(pod *corev1.Pod, node string) {
		r.Record(events.Event{
			Regarding: events.About(corev1.SchemeGroupVersion.WithKind("Pod"), pod),
			Type:      corev1.EventTypeNormal, Reason: "BindingConditionsPending", Action: "Scheduling",
			Message: "waiting for binding conditions for device on node " + node,
		})
	}
}
