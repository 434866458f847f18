package localprovisioner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/controllers/localprovisioner"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/lifecycle"
)

var (
	volumes = corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	claims  = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
)

// bench is a running provisioner with its API, in a bubble.
type bench struct {
	*testing.T
	api      *controllerstest.API
	recorder *controllerstest.Recorder
	dirs     *directories
	stop     context.CancelFunc
}

// directories fail as scripted.
type directories struct {
	localprovisioner.Names
	elsewhere string // a node of others

	mu  sync.Mutex
	err error
}

// fail makes everything fail from now on, or nothing any more.
func (d *directories) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *directories) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *directories) Serves(node string) bool { return node != d.elsewhere }

func (d *directories) Make(ctx context.Context, node, volume string) (string, error) {
	if err := d.failure(); err != nil {
		return "", err
	}
	return d.Names.Make(ctx, node, volume)
}

func (d *directories) Remove(ctx context.Context, node, volume string) error {
	if err := d.failure(); err != nil {
		return err
	}
	return d.Names.Remove(ctx, node, volume)
}

func inBubble(t *testing.T, o controllerstest.Options, test func(*bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Objects = append(o.Objects, class("local"), node("node-0"))
		b := &bench{T: t, api: controllerstest.Start(t, o), recorder: &controllerstest.Recorder{}, dirs: &directories{elsewhere: "other"}}
		b.start()
		test(b)
		b.stop()
	})
}

// start runs a new controller, until stop.
func (b *bench) start() {
	ctx, stop := context.WithCancel(b.Context())
	detect := informer.Options{DetectMutations: func(err error) { b.Error(err) }}
	in := localprovisioner.Sources{
		Claims:  informer.New(controllerstest.Source[*corev1.PersistentVolumeClaim](b.api, claims), detect),
		Volumes: informer.New(controllerstest.Source[*corev1.PersistentVolume](b.api, volumes), detect),
		Classes: informer.New(controllerstest.Source[*storagev1.StorageClass](b.api, storagev1.SchemeGroupVersion.WithResource("storageclasses")), detect),
		Nodes:   informer.New(controllerstest.Source[*corev1.Node](b.api, corev1.SchemeGroupVersion.WithResource("nodes")), detect),
	}
	loop := controllers.NewLoop(localprovisioner.New(in, b.dirs, b.api, b.recorder), controllers.Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = lifecycle.Group(in.Claims, in.Volumes, in.Classes, in.Nodes, loop).Run(ctx)
	}()
	b.stop = func() { stop(); <-done }
	synctest.Wait()
}

func class(name string) *storagev1.StorageClass {
	wait, reclaim := storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimDelete
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: localprovisioner.Provisioner, VolumeBindingMode: &wait, ReclaimPolicy: &reclaim,
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: "host-of-" + name}}}
}

// claim waits for a volume on node-0.
func claim(name string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{
			"volume.kubernetes.io/storage-provisioner": localprovisioner.Provisioner, "volume.kubernetes.io/selected-node": "node-0",
		}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("local"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("3Gi")}},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func (b *bench) add(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	b.Helper()
	stored := controllerstest.Add(b, b.api, c)
	synctest.Wait()
	return stored
}

// volume returns the volume of a claim, nil if there is none.
func (b *bench) volume(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	b.Helper()
	synctest.Wait()
	pv, err := client.As[*corev1.PersistentVolume](b.api.Others.Get(b.Context(), client.Target{Resource: volumes, Name: localprovisioner.NameFor(c)}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.Fatal(err)
	}
	return pv
}

// release deletes the claim, and does what the volume controller does then.
func (b *bench) release(c *corev1.PersistentVolumeClaim) {
	b.Helper()
	if err := b.api.Others.Delete(b.Context(), client.Target{Resource: claims, Namespace: c.Namespace, Name: c.Name}, metav1.DeleteOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
	pv := b.volume(c).DeepCopy()
	pv.Status.Phase = corev1.VolumeReleased
	at := client.Target{Resource: volumes, Name: pv.Name, Subresource: "status"}
	if _, err := b.api.Others.Update(b.Context(), at, pv, metav1.UpdateOptions{}); err != nil {
		b.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) expectEvents(want ...string) {
	b.Helper()
	synctest.Wait()
	var got []string
	for _, e := range b.recorder.Events() {
		got = append(got, fmt.Sprintf("%s %s %s: %s", e.Regarding.Name, e.Type, e.Reason, e.Message))
	}
	if !slices.Equal(got, want) {
		b.Errorf("events\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestLife(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		c := b.add(claim("data"))
		pv := b.volume(c)
		if pv == nil {
			b.Fatal("no volume")
		}
		if pv.Spec.Local.Path != "/var/lib/keelson/volumes/"+pv.Name || !b.dirs.Has("node-0", pv.Name) {
			b.Errorf("it is at %s", pv.Spec.Local.Path)
		}
		if q := pv.Spec.Capacity["storage"]; q.String() != "3Gi" || pv.Spec.StorageClassName != "local" || pv.Spec.PersistentVolumeReclaimPolicy != "Delete" ||
			!slices.Equal(pv.Spec.AccessModes, c.Spec.AccessModes) || *pv.Spec.VolumeMode != "Filesystem" {
			b.Errorf("%+v", pv.Spec)
		}
		if r := pv.Spec.ClaimRef; r.UID != c.UID || r.Namespace != "ns" || r.Name != "data" || r.Kind != "PersistentVolumeClaim" || r.ResourceVersion != c.ResourceVersion {
			b.Errorf("%+v", r)
		}
		if e := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]; e.Key != "kubernetes.io/hostname" || !slices.Equal(e.Values, []string{"host-of-node-0"}) {
			b.Errorf("%+v", e)
		}
		if pv.Annotations["pv.kubernetes.io/provisioned-by"] != "keelson.dev/local" || !slices.Contains(pv.Finalizers, "external-provisioner.volume.kubernetes.io/finalizer") {
			b.Errorf("%+v", pv.ObjectMeta)
		}
		b.expectEvents(`data Normal Provisioning: External provisioner is provisioning volume for claim "ns/data"`,
			"data Normal ProvisioningSucceeded: Successfully provisioned volume "+pv.Name)
		b.release(c)
		if b.volume(c) != nil || b.dirs.Has("node-0", pv.Name) {
			b.Error("the volume or its directory is left")
		}
	})
}

// TestWaits: claims that are not this provisioner's or have no node yet are left alone.
func TestWaits(t *testing.T) {
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"without a node":      func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, "volume.kubernetes.io/selected-node") },
		"on a node of others": func(c *corev1.PersistentVolumeClaim) { c.Annotations["volume.kubernetes.io/selected-node"] = "other" },
		"not asked for": func(c *corev1.PersistentVolumeClaim) {
			delete(c.Annotations, "volume.kubernetes.io/storage-provisioner")
		},
		"asked of others": func(c *corev1.PersistentVolumeClaim) {
			c.Annotations["volume.kubernetes.io/storage-provisioner"] = "example.com/nfs"
		},
		"bound":             func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" },
		"no such class":     func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("gone") },
		"a class of others": func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("foreign") },
	} {
		t.Run(name, func(t *testing.T) {
			foreign := class("foreign")
			foreign.Provisioner = "example.com/nfs"
			inBubble(t, controllerstest.Options{Objects: []informer.Object{foreign}}, func(b *bench) {
				c := b.add(claim("data", change))
				if b.volume(c) != nil {
					b.Error("there is a volume")
				}
				b.expectEvents()
			})
		})
	}
}

// TestClassComesLater: a claim is provided for when its class appears, by the annotation of the older name too.
func TestClassComesLater(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		c := b.add(claim("data", func(c *corev1.PersistentVolumeClaim) {
			c.Annotations["volume.beta.kubernetes.io/storage-class"] = "later"
			c.Annotations["volume.beta.kubernetes.io/storage-provisioner"] = localprovisioner.Provisioner
			delete(c.Annotations, "volume.kubernetes.io/storage-provisioner")
		}))
		controllerstest.Add(b, b.api, class("later"))
		if pv := b.volume(c); pv == nil || pv.Spec.StorageClassName != "later" {
			b.Errorf("%+v", pv)
		}
	})
}

func TestRefusals(t *testing.T) {
	block, immediate := corev1.PersistentVolumeBlock, storagev1.VolumeBindingImmediate
	const prefix = `failed to provision volume with StorageClass "odd": `
	for name, tt := range map[string]struct {
		claim func(*corev1.PersistentVolumeClaimSpec)
		class func(*storagev1.StorageClass)
		want  string
	}{
		"a device":   {claim: func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeMode = &block }, want: "keelson.dev/local does not support block volume provisioning"},
		"a selector": {claim: func(s *corev1.PersistentVolumeClaimSpec) { s.Selector = &metav1.LabelSelector{} }, want: prefix + "claim Selector is not supported"},
		"a copy": {claim: func(s *corev1.PersistentVolumeClaimSpec) {
			s.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
		}, want: prefix + "claim DataSource is not supported"},
		"a copy of any": {claim: func(s *corev1.PersistentVolumeClaimSpec) {
			s.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
		}, want: prefix + "claim DataSource is not supported"},
		"attributes": {claim: func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeAttributesClassName = new("gold") }, want: prefix + "volume attributes classes are not supported"},
		"many writers": {claim: func(s *corev1.PersistentVolumeClaimSpec) {
			s.AccessModes = append(s.AccessModes, "ReadWriteMany", "ReadOnlyMany")
		}, want: prefix + "only the access modes ReadWriteOnce and ReadWriteOncePod are supported, not ReadWriteMany, ReadOnlyMany"},
		"at once":    {class: func(c *storagev1.StorageClass) { c.VolumeBindingMode = &immediate }, want: prefix + "no node was selected: the class must have volumeBindingMode WaitForFirstConsumer"},
		"parameters": {class: func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"a": "b"} }, want: prefix + "the class has parameters, of which none is supported"},
		"topologies": {class: func(c *storagev1.StorageClass) {
			c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"a"}}}}}
		}, want: prefix + "allowedTopologies of the class are not supported"},
		"one pod": {claim: func(s *corev1.PersistentVolumeClaimSpec) { s.AccessModes[0] = "ReadWriteOncePod" }},
		"files":   {claim: func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeMode = new(corev1.PersistentVolumeFilesystem) }},
	} {
		t.Run(name, func(t *testing.T) {
			odd := class("odd")
			if tt.class != nil {
				tt.class(odd)
			}
			inBubble(t, controllerstest.Options{Objects: []informer.Object{odd}}, func(b *bench) {
				c := b.add(claim("data", func(c *corev1.PersistentVolumeClaim) {
					c.Spec.StorageClassName = new("odd")
					if tt.claim != nil {
						tt.claim(&c.Spec)
					}
				}))
				time.Sleep(time.Hour)
				if made := b.volume(c) != nil; made != (tt.want == "") {
					b.Errorf("made: %v", made)
				}
				if tt.want != "" {
					b.expectEvents("data Warning ProvisioningFailed: " + tt.want)
				}
			})
		})
	}
}

// TestNodeIsGone: the claim goes back to the scheduler.
func TestNodeIsGone(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		c := b.add(claim("data", func(c *corev1.PersistentVolumeClaim) { c.Annotations["volume.kubernetes.io/selected-node"] = "node-9" }))
		now, err := client.As[*corev1.PersistentVolumeClaim](b.api.Others.Get(b.Context(), client.Target{Resource: claims, Namespace: "ns", Name: "data"}))
		if _, there := now.Annotations["volume.kubernetes.io/selected-node"]; err != nil || there || len(now.Annotations) != 1 {
			b.Errorf("%v, %v", now.Annotations, err)
		}
		if b.volume(c) != nil {
			b.Error("there is a volume")
		}
		b.expectEvents(`data Warning ProvisioningFailed: nodes "node-9" not found`)
	})
}

// TestRetries: what fails is tried again, with an event each time.
func TestRetries(t *testing.T) {
	inBubble(t, controllerstest.Options{}, func(b *bench) {
		b.dirs.fail(errors.New("disk full"))
		c := b.add(claim("data"))
		b.expectEvents(`data Normal Provisioning: External provisioner is provisioning volume for claim "ns/data"`,
			`data Warning ProvisioningFailed: failed to provision volume with StorageClass "local": disk full`)
		b.dirs.fail(nil)
		time.Sleep(time.Minute)
		pv := b.volume(c)
		if pv == nil {
			b.Fatal("no volume")
		}
		b.dirs.fail(errors.New("busy"))
		b.release(c)
		if events := b.recorder.Events(); events[len(events)-1].Reason != "VolumeFailedDelete" || events[len(events)-1].Message != "busy" || events[len(events)-1].Regarding.Kind != "PersistentVolume" {
			b.Errorf("%+v", events[len(events)-1])
		}
		if b.volume(c) == nil {
			b.Error("the volume went without its directory")
		}
		b.dirs.fail(nil)
		time.Sleep(time.Hour)
		if b.volume(c) != nil || b.dirs.Has("node-0", pv.Name) {
			b.Error("the volume is left")
		}
	})
}

// TestReclaim: only volumes of this provisioner that are released and to be deleted lose their directory.
func TestReclaim(t *testing.T) {
	for name, tt := range map[string]struct {
		retain, alien, far, delete, released bool
		gone, emptied                        bool
	}{
		"in use":                       {},
		"released":                     {released: true, gone: true, emptied: true},
		"in use and deleted":           {delete: true},
		"released and deleted":         {delete: true, released: true, gone: true, emptied: true},
		"retained":                     {retain: true, released: true},
		"retained and deleted":         {retain: true, delete: true, released: true, gone: true},
		"retained, in use and deleted": {retain: true, delete: true, gone: true},
		"of another provisioner":       {alien: true, released: true},
		"of another node":              {far: true, released: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerstest.Options{}, func(b *bench) {
				c := b.add(claim("data"))
				pv := b.volume(c).DeepCopy()
				if tt.retain {
					pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
				}
				if tt.alien {
					pv.Annotations["pv.kubernetes.io/provisioned-by"] = "example.com/nfs"
				}
				if tt.far {
					pv.Annotations["keelson.dev/node"] = "other"
				}
				at := client.Target{Resource: volumes, Name: pv.Name}
				if _, err := b.api.Others.Update(b.Context(), at, pv, metav1.UpdateOptions{}); err != nil {
					b.Fatal(err)
				}
				if tt.delete {
					if err := b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}); err != nil {
						b.Fatal(err)
					}
				}
				synctest.Wait()
				if tt.released && b.volume(c) != nil {
					b.release(c)
				}
				if gone, emptied := b.volume(c) == nil, !b.dirs.Has("node-0", pv.Name); gone != tt.gone || emptied != tt.emptied {
					b.Errorf("volume gone: %v, directory gone: %v", gone, emptied)
				}
			})
		})
	}
}

// TestCrashes: stopped after any of its requests, carried out or not, the provisioner leaves what its successor finishes.
func TestCrashes(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for n := range 3 { // the volume is created, deleted, and loses its finalizer
			t.Run(fmt.Sprintf("request %d, carried out: %v", n, lost), func(t *testing.T) {
				inBubble(t, controllerstest.Options{}, func(b *bench) {
					b.api.Inject(faults.Fault{Skip: n, Lost: lost, Err: errors.New("crashed")})
					resume := func() {
						synctest.Wait() // without time for another attempt
						b.stop()
						b.start()
						time.Sleep(time.Minute)
						synctest.Wait()
					}
					c := b.add(claim("data"))
					resume()
					pv := b.volume(c)
					if pv == nil || !b.dirs.Has("node-0", pv.Name) {
						b.Fatalf("no volume: %v", pv)
					}
					b.release(c)
					resume()
					if b.volume(c) != nil || b.dirs.Has("node-0", pv.Name) {
						b.Error("the volume or its directory is left")
					}
				})
			})
		}
	}
}

// TestNameTaken: a volume that is there is the one that was to be made; any other refusal is told, and tried again.
func TestNameTaken(t *testing.T) {
	const began = `data Normal Provisioning: External provisioner is provisioning volume for claim "ns/data"`
	for want, fault := range map[string]faults.Fault{
		"data Normal ProvisioningSucceeded: Successfully provisioned volume ":                       {Lost: true, Err: apierrors.NewAlreadyExists(corev1.Resource("persistentvolumes"), "x")},
		`data Warning ProvisioningFailed: failed to provision volume with StorageClass "local": no`: {Err: errors.New("no")},
	} {
		inBubble(t, controllerstest.Options{}, func(b *bench) {
			b.api.Inject(fault)
			b.add(claim("data"))
			synctest.Wait()
			var events []string
			for _, e := range b.recorder.Events() {
				events = append(events, fmt.Sprintf("%s %s %s: %s", e.Regarding.Name, e.Type, e.Reason, e.Message))
			}
			if len(events) != 2 || events[0] != began || !strings.HasPrefix(events[1], want) {
				b.Errorf("%q instead of %s", events, want)
			}
		})
	}
}
