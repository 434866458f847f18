package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
)

const (
	mountDevice = "MountVolume.MountDevice failed"
	mapDevice   = "MapVolume.MapPodDevice failed"
	notAttached = "Volume not attached according to node status"
)

// republishAfter bounds how often volumes are published again.
const republishAfter = 10 * time.Second

// SetUp stages and publishes a volume and returns where it is: dir/mount.
func (d *Drivers) SetUp(ctx context.Context, m claims.Mount, dir string) (string, error) {
	if m.Block() {
		return "", &claims.MountError{Operation: mapDevice, Err: fmt.Errorf("CSI volumes as devices are %w", ErrUnsupported)}
	}
	s, target := sourceOf(m), filepath.Join(dir, mountDir)
	if d.settled(dir) && !s.grown() {
		return target, nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.options.Timeout)
	defer cancel()
	unlock, err := d.turns.Lock(ctx, s.name())
	if err != nil {
		return "", fmt.Errorf("waiting for another operation with the volume: %w", err)
	}
	defer unlock()
	if !d.settled(dir) {
		if err := d.mount(ctx, &s, dir); err != nil {
			return "", err
		}
	}
	d.expand(ctx, &s, target)
	return target, nil
}

// settled reports whether this process has published a volume, and need not do so again.
func (d *Drivers) settled(dir string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, here := d.mounted[dir]
	return here && (!known.republish || time.Since(known.at) < republishAfter)
}

// operation is one attempt to mount a volume.
type operation struct {
	*source
	driver  *driver
	object  *storagev1.CSIDriver // nil if the driver has none
	can     abilities
	context map[string]string // what its attacher says
}

// mount does what there is to do until a volume is published at dir/mount.
func (d *Drivers) mount(ctx context.Context, s *source, dir string) error {
	d.mu.Lock()
	_, again := d.mounted[dir]
	d.mu.Unlock()
	object, err := d.object(ctx, s.driver)
	if err != nil {
		return err
	}
	if err := s.checkLifecycle(object); err != nil {
		return fmt.Errorf("kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: %w", err)
	}
	if err := d.note(s, object, dir); err != nil {
		return err
	}
	o := &operation{source: s, object: object}
	if s.attachable(object) {
		if o.context, err = d.attached(ctx, s, object); err != nil {
			return err
		}
	}
	target := filepath.Join(dir, mountDir)
	republish := object != nil && object.Spec.RequiresRepublish != nil && *object.Spec.RequiresRepublish
	mounted, err := isMountPoint(target)
	if err != nil {
		return err
	}
	if !mounted || again || republish {
		if err := d.connect(ctx, o); err != nil {
			return err
		}
		defer o.driver.close()
		if err := d.stage(ctx, o); err != nil {
			return err
		}
		if err := d.publish(ctx, o, target, again || mounted); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mounted[dir] = state{time.Now(), republish}
	return nil
}

// object reads the CSIDriver of a driver.
func (d *Drivers) object(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	at := client.Target{Resource: storagev1.SchemeGroupVersion.WithResource("csidrivers"), Name: name}
	object, err := client.As[*storagev1.CSIDriver](d.in.Client.Get(ctx, at))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// note writes down what a later process has to know to take the volume down, before anything is mounted.
func (d *Drivers) note(s *source, object *storagev1.CSIDriver, dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	known := data{Volume: s.Name(), Handle: s.handle, Driver: s.driver, Node: d.node, Lifecycle: s.lifecycle}
	known.Attached = attachmentName(s.handle, s.driver, d.node)
	if s.attachable(object) {
		known.Attachable = "true"
	}
	return known.save(dir)
}

// attached waits for nothing: it fails until the volume is attached. It returns what the attacher says to the node.
func (d *Drivers) attached(ctx context.Context, s *source, object *storagev1.CSIDriver) (map[string]string, error) {
	node, err := d.use(ctx, s.name())
	if err != nil {
		return nil, err
	}
	name := attachmentName(s.handle, s.driver, d.node)
	at := client.Target{Resource: storagev1.SchemeGroupVersion.WithResource("volumeattachments"), Name: name}
	reported := slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == s.name() })
	if !reported {
		waiting := errors.New("waiting for the attach-detach controller")
		if updatePeriod(object) > 0 {
			if va, err := client.As[*storagev1.VolumeAttachment](d.in.Client.Get(ctx, at)); err == nil && d.exhausted(ctx, object, va) {
				waiting = limitError{waiting}
			}
		}
		return nil, &claims.MountError{Operation: notAttached, Err: soon(waiting)}
	}
	va, err := client.As[*storagev1.VolumeAttachment](d.in.Client.Get(ctx, at))
	var why error
	switch {
	case err != nil:
		why = fmt.Errorf("volume %s has GET error for volume attachment %s: %w", s.handle, name, err)
	case va.DeletionTimestamp != nil:
		why = errors.New("volume attachment is being deleted")
	case va.Status.Attached:
		return va.Status.AttachmentMetadata, nil
	case va.Status.AttachError != nil:
		why = errors.New(va.Status.AttachError.Message)
	default:
		why = fmt.Errorf("volume %s is not attached for volume attachment %s", s.handle, name)
	}
	return nil, &claims.MountError{Operation: "MountVolume.WaitForAttach failed", Err: why}
}

// limitError is claims.ErrAttachLimit in other words: those of upstream's events.
type limitError struct{ error }

func (limitError) Is(target error) bool { return target == claims.ErrAttachLimit }

// connect asks a driver what it can do.
func (d *Drivers) connect(ctx context.Context, o *operation) error {
	var err error
	what, operation := "mounter.SetUpAt failed to get CSI client", ""
	if o.lifecycle == persistent {
		what, operation = "attacher.MountDevice failed to create newCsiDriverClient", mountDevice
	}
	if o.driver, err = d.driver(o.source.driver); err != nil {
		return &claims.MountError{Operation: operation, Err: fmt.Errorf("kubernetes.io/csi: %s: %w", what, err)}
	}
	if o.can, err = o.driver.abilities(ctx); err != nil {
		o.driver.close()
		return &claims.MountError{Operation: operation, Err: err}
	}
	return nil
}

// stage stages a persistent volume, unless this process has.
func (d *Drivers) stage(ctx context.Context, o *operation) error {
	staging := d.stagingPath(o.source.driver, o.handle)
	d.mu.Lock()
	staged := d.staged[o.source.name()]
	d.mu.Unlock()
	if o.lifecycle != persistent || staged || !o.can[csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		return nil
	}
	secrets, err := d.secrets(ctx, o.stageSecret, "NodeStageSecretRef")
	if err != nil {
		return &claims.MountError{Operation: mountDevice, Err: err}
	}
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return err
	}
	parent := filepath.Dir(staging)
	if err := (data{Handle: o.handle, Driver: o.source.driver}).save(parent); err != nil {
		return err
	}
	_, err = o.driver.NodeStageVolume(ctx, &csispec.NodeStageVolumeRequest{
		VolumeId: o.handle, PublishContext: o.context, StagingTargetPath: staging,
		VolumeCapability: o.capability(o.can, group(o.Pod)), Secrets: secrets, VolumeContext: o.attributes,
	})
	if err != nil {
		if final(err) {
			err = errors.Join(err, clearAway(parent, stagingDir))
		}
		return &claims.MountError{Operation: mountDevice, Err: err}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.staged[o.source.name()] = true
	return nil
}

// publish publishes a volume; again is whether it was published before, and is in use.
func (d *Drivers) publish(ctx context.Context, o *operation, target string, again bool) error {
	secrets, err := d.secrets(ctx, o.publishSecret, "NodePublishSecretRef")
	if err != nil {
		return err
	}
	request := &csispec.NodePublishVolumeRequest{
		VolumeId: o.handle, PublishContext: o.context, TargetPath: target, VolumeCapability: o.capability(o.can, group(o.Pod)),
		Readonly: o.readOnly, Secrets: secrets, VolumeContext: o.source.context(o.object),
	}
	if o.lifecycle == persistent && o.can[csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		request.StagingTargetPath = d.stagingPath(o.source.driver, o.handle)
	}
	if err := d.tokens(ctx, o, request); err != nil {
		return fmt.Errorf("kubernetes.io/csi: mounter.SetUpAt failed to get service accoount token attributes: %w", err)
	}
	if _, err := o.driver.NodePublishVolume(ctx, request); err != nil {
		if final(err) && !again {
			if gone := os.Remove(target); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				d.log.Warn("what a driver left of a volume stays", "error", gone)
			}
		}
		return err
	}
	if !again && o.owned(o.object, o.can) {
		if err := own(target, o.Pod); err != nil {
			return fmt.Errorf("applyFSGroup failed for vol %s: %w", o.handle, err)
		}
	}
	return nil
}

// tokens adds those that a driver asks for to its request.
func (d *Drivers) tokens(ctx context.Context, o *operation, request *csispec.NodePublishVolumeRequest) error {
	if o.object == nil || len(o.object.Spec.TokenRequests) == 0 {
		return nil
	}
	all := map[string]authenticationv1.TokenRequestStatus{}
	for _, r := range o.object.Spec.TokenRequests {
		spec := authenticationv1.TokenRequestSpec{
			ExpirationSeconds: r.ExpirationSeconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: o.Pod.Name, UID: o.Pod.UID},
		}
		if r.Audience != "" {
			spec.Audiences = []string{r.Audience}
		}
		token, err := d.in.Tokens.Token(ctx, o.Pod.Namespace, o.Pod.Spec.ServiceAccountName, spec)
		if err != nil {
			return err
		}
		all[r.Audience] = token
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding tokens: %w", err)
	}
	into := &request.VolumeContext
	if in := o.object.Spec.ServiceAccountTokenInSecrets; in != nil && *in {
		into = &request.Secrets
	}
	if *into == nil {
		*into = map[string]string{}
	}
	(*into)["csi.storage.k8s.io/serviceAccount.tokens"] = string(encoded)
	return nil
}

// secrets reads what a volume refers to.
func (d *Drivers) secrets(ctx context.Context, ref *corev1.SecretReference, what string) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	at := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Namespace: ref.Namespace, Name: ref.Name}
	secret, err := client.As[*corev1.Secret](d.in.Client.Get(ctx, at))
	if err != nil {
		return nil, fmt.Errorf("fetching %s %s/%s failed: %w", what, ref.Namespace, ref.Name, err)
	}
	out := map[string]string{}
	for key, value := range secret.Data {
		out[key] = string(value)
	}
	return out, nil
}

// TearDown takes a volume from its pod, and from the node if it was the last one that had it.
func (d *Drivers) TearDown(ctx context.Context, _ types.UID, dir string) error {
	known, err := load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return clearAway(dir, mountDir) // nothing was mounted yet
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.options.Timeout)
	defer cancel()
	name := uniqueName(known.Driver, known.Handle)
	unlock, err := d.turns.Lock(ctx, name)
	if err != nil {
		return fmt.Errorf("waiting for another operation with the volume: %w", err)
	}
	defer unlock()
	d.mu.Lock()
	delete(d.mounted, dir)
	d.mu.Unlock()
	last := known.persistent() && d.last(known, dir)
	if err := d.unpublish(ctx, known, dir, last); err != nil {
		return err
	}
	if err := clearAway(dir, mountDir); err != nil {
		return err
	}
	if last {
		d.unuse(ctx, name)
	}
	return nil
}

// unpublish undoes publish and, for the last pod, stage. What was never mounted needs no driver.
func (d *Drivers) unpublish(ctx context.Context, known data, dir string, last bool) error {
	target, staging := filepath.Join(dir, mountDir), d.stagingPath(known.Driver, known.Handle)
	there := exists(target)
	stage := last && exists(filepath.Join(filepath.Dir(staging), dataFile))
	if !there && !stage {
		return nil
	}
	driver, err := d.driver(known.Driver)
	if err != nil {
		return fmt.Errorf("kubernetes.io/csi: Unmounter.TearDownAt failed to get CSI client: %w", err)
	}
	defer driver.close()
	if there {
		if _, err := driver.NodeUnpublishVolume(ctx, &csispec.NodeUnpublishVolumeRequest{VolumeId: known.Handle, TargetPath: target}); err != nil {
			return fmt.Errorf("kubernetes.io/csi: Unmounter.TearDownAt failed: %w", err)
		}
		if mounted, err := isMountPoint(target); err != nil || mounted {
			return errors.Join(err, fmt.Errorf("kubernetes.io/csi: the driver has left %s mounted", target))
		}
		if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if !stage {
		return nil
	}
	if _, err := driver.NodeUnstageVolume(ctx, &csispec.NodeUnstageVolumeRequest{VolumeId: known.Handle, StagingTargetPath: staging}); err != nil {
		return fmt.Errorf("kubernetes.io/csi: attacher.UnmountDevice failed: %w", err)
	}
	d.mu.Lock()
	delete(d.staged, uniqueName(known.Driver, known.Handle))
	d.mu.Unlock()
	return clearAway(filepath.Dir(staging), stagingDir)
}

// last reports whether no other pod has a volume.
func (d *Drivers) last(known data, dir string) bool {
	all, err := d.published()
	if err != nil {
		return false
	}
	for other, its := range all {
		if other != dir && its.Driver == known.Driver && its.Handle == known.Handle {
			return false
		}
	}
	return true
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
