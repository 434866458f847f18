package pvbinder

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// known is what decisions about claims are made from.
type known struct {
	volume  func(name string) (*corev1.PersistentVolume, bool)
	volumes func() []*corev1.PersistentVolume
	class   func(name string) (*storagev1.StorageClass, bool)
	classes func() []*storagev1.StorageClass
	using   func(namespace, claim string) []*corev1.Pod
}

func (c *Controller) known() known {
	return known{
		volume: func(name string) (*corev1.PersistentVolume, bool) {
			pv, ok := c.volumes[controllers.Key{Name: name}]
			return pv, ok
		},
		volumes: func() []*corev1.PersistentVolume { return byName(c.volumes) },
		class:   func(name string) (*storagev1.StorageClass, bool) { return c.in.Classes.Get("", name) },
		classes: func() []*storagev1.StorageClass { return c.in.Classes.List("") },
		using:   c.using,
	}
}

// claimPlan is what to do about a claim, in this order; most fields of a plan are unset.
type claimPlan struct {
	bind        *corev1.PersistentVolume          // bind the claim to this volume
	class       string                            // give it this class
	provisioner string                            // ask it for a volume
	told        *report                           // an event
	phase       corev1.PersistentVolumeClaimPhase // without a volume
	lost        *report                           // an event when it enters the phase Lost
}

func (c *Controller) using(namespace, claim string) []*corev1.Pod {
	return pods.UsingClaim(c.in.Pods, namespace, claim)
}

func (c *Controller) syncClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if annealed, changed := annealClaim(claim); changed {
		stored, err := c.writeClaim(ctx, annealed, "")
		if err != nil {
			return err
		}
		claim = stored
	}
	plan, err := planClaim(claim, c.known())
	return errors.Join(c.carryOut(ctx, claim, plan), err)
}

func (c *Controller) carryOut(ctx context.Context, claim *corev1.PersistentVolumeClaim, plan claimPlan) error {
	switch {
	case plan.bind != nil:
		return c.bind(ctx, plan.bind, claim)
	case plan.class != "":
		return c.giveClass(ctx, claim, plan.class)
	case plan.provisioner != "":
		return c.provision(ctx, claim, plan.provisioner)
	}
	if plan.told != nil {
		c.tell(claim, plan.told)
	}
	if plan.phase == "" {
		return nil
	}
	next, changed := unboundStatus(claim, plan.phase)
	if !changed || plan.lost != nil && claim.Status.Phase == plan.phase {
		return nil
	}
	stored, err := c.writeClaim(ctx, next, "status")
	if err == nil && plan.lost != nil {
		c.tell(stored, plan.lost)
	}
	return err
}

func (c *Controller) giveClass(ctx context.Context, claim *corev1.PersistentVolumeClaim, class string) error {
	classed := claim.DeepCopy()
	classed.Spec.StorageClassName = &class
	// What is stored is not noted here: its arrival is what continues.
	if _, err := c.client.Update(ctx, target(claim, ""), classed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("can't update PersistentVolumeClaim[%q]: %w", controllers.KeyOf(claim), err)
	}
	return nil
}

// provision annotates a claim for its provisioner.
func (c *Controller) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, provisioner string) error {
	if claim.Annotations[askedFor] != provisioner {
		next := claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, askedForBeta, provisioner)
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, askedFor, provisioner)
		next, _ = annealClaim(next)
		stored, err := c.writeClaim(ctx, next, "")
		if err != nil {
			c.tell(claim, &report{corev1.EventTypeWarning, "ProvisioningFailed", fmt.Sprintf("Error saving claim: %v", errors.Unwrap(err))})
			return err
		}
		claim = stored
	}
	c.tell(claim, &report{corev1.EventTypeNormal, "ExternalProvisioning", fmt.Sprintf("Waiting for a volume to be created either by the external provisioner '%s' "+
		"or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.", provisioner)})
	return nil
}

func planClaim(claim *corev1.PersistentVolumeClaim, k known) (claimPlan, error) {
	switch {
	case metav1.HasAnnotation(claim.ObjectMeta, bindCompleted):
		return planBound(claim, k), nil
	case claim.Spec.VolumeName == "":
		return planAny(claim, k)
	default:
		return planRequested(claim, k)
	}
}

// planAny is for a claim that takes any volume that matches.
func planAny(claim *corev1.PersistentVolumeClaim, k known) (claimPlan, error) {
	delayed, err := waits(claim, k)
	if err != nil {
		return claimPlan{}, err
	}
	best, err := bestMatch(claim, k.volumes(), delayed)
	if err != nil {
		return claimPlan{}, fmt.Errorf("error finding PV for claim %q: %w", controllers.KeyOf(claim), err)
	}
	if best != nil {
		return claimPlan{bind: best}, nil
	}
	if !hasClass(claim) {
		if class := defaultClass(k.classes()); class != "" {
			return claimPlan{class: class}, nil
		}
	}
	pending := claimPlan{phase: corev1.ClaimPending}
	switch class := classOf(claim); {
	case delayed && !metav1.HasAnnotation(claim.ObjectMeta, selectedNode):
		pending.told = consumerAwaited(k.using(claim.Namespace, claim.Name))
	case class != "":
		return planProvisioning(class, k), nil
	default:
		pending.told = &report{corev1.EventTypeNormal, "FailedBinding", "no persistent volumes available for this claim and no storage class is set"}
	}
	return pending, nil
}

// waits reports whether a claim's class has claims wait for their first consumer.
func waits(claim *corev1.PersistentVolumeClaim, k known) (bool, error) {
	name := classOf(claim)
	class, ok := k.class(name)
	if name == "" || !ok {
		return false, nil
	}
	if class.VolumeBindingMode == nil {
		return false, fmt.Errorf("VolumeBindingMode not set for StorageClass %q", name)
	}
	return *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer, nil
}

func consumerAwaited(using []*corev1.Pod) *report {
	var names []string
	for _, pod := range using {
		if !pods.DoneWithVolumes(pod) && pod.Spec.NodeName == "" {
			names = append(names, pod.Name)
		}
	}
	switch len(names) {
	case 0:
		return &report{corev1.EventTypeNormal, "WaitForFirstConsumer", "waiting for first consumer to be created before binding"}
	case 1:
		return &report{corev1.EventTypeNormal, "WaitForPodScheduled", fmt.Sprintf("waiting for pod %s to be scheduled", names[0])}
	}
	return &report{corev1.EventTypeNormal, "WaitForPodScheduled", fmt.Sprintf("waiting for pods %s to be scheduled", strings.Join(names, ","))}
}

func planProvisioning(name string, k known) claimPlan {
	failed := func(message string) claimPlan {
		return claimPlan{told: &report{corev1.EventTypeWarning, "ProvisioningFailed", message}}
	}
	class, ok := k.class(name)
	if !ok {
		return failed(fmt.Sprintf("storageclass.storage.k8s.io %q not found", name))
	}
	driver, err := provisioner(class.Provisioner)
	if err != nil {
		return failed(err.Error())
	}
	return claimPlan{provisioner: driver}
}

// planRequested is for a claim that names the volume it wants.
func planRequested(claim *corev1.PersistentVolumeClaim, k known) (claimPlan, error) {
	pv, ok := k.volume(claim.Spec.VolumeName)
	pending := claimPlan{phase: corev1.ClaimPending}
	switch {
	case !ok:
		return pending, nil
	case pv.Spec.ClaimRef == nil:
		if err := satisfies(pv, claim); err != nil {
			pending.told = &report{corev1.EventTypeWarning, "VolumeMismatch", fmt.Sprintf("Cannot bind to requested volume %q: %s", pv.Name, err)}
			return pending, nil
		}
		return claimPlan{bind: pv}, nil
	case boundTo(pv, claim):
		return claimPlan{bind: pv}, nil
	}
	pending.told = &report{corev1.EventTypeWarning, "FailedBinding", fmt.Sprintf("volume %q already bound to a different claim.", pv.Name)}
	if !metav1.HasAnnotation(claim.ObjectMeta, boundByUs) {
		return pending, nil
	}
	// Somebody has removed the annotation of the completed binding.
	return claimPlan{told: pending.told}, fmt.Errorf("invalid binding of claim %q to volume %q: volume already claimed by %q",
		controllers.KeyOf(claim), claim.Spec.VolumeName, claimOf(pv))
}

// planBound is for a claim that has been bound.
func planBound(claim *corev1.PersistentVolumeClaim, k known) claimPlan {
	lost := func(reason, message string) claimPlan {
		return claimPlan{phase: corev1.ClaimLost, lost: &report{corev1.EventTypeWarning, reason, message}}
	}
	if claim.Spec.VolumeName == "" {
		return lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	}
	pv, ok := k.volume(claim.Spec.VolumeName)
	switch {
	case !ok:
		return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == claim.UID:
		return claimPlan{bind: pv} // which does nothing if all is well
	}
	return lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}
