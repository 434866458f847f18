package statefulset_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers/statefulset"
)

func TestIdentityOfNames(t *testing.T) {
	for name, want := range map[string]string{
		"web-0": "web 0", "web-12": "web 12", "a-b-3": "a-b 3", "web-007": "web 7", "-1": " 1", "web-1-": " -1",
		"web": " -1", "web-": " -1", "web-x": " -1", "web-1x": " -1", "web--1": "web- 1", "web-4294967296": "web -1", "": " -1",
	} {
		set, ordinal := statefulset.Identity(name)
		if got := fmt.Sprint(set, " ", ordinal); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// TestVictims: each pod is old or new, "+" if it is available and "-" if it is being deleted.
func TestVictims(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tt := range map[string]struct {
		set  *appsv1.StatefulSet
		pods string
		want string
	}{
		"nothing to do":              {web(3), "new+ new+ new+", ""},
		"the highest":                {web(3), "old+ old+ old+", "2"},
		"the next":                   {web(3), "old+ old+ new+", "1"},
		"one is not available":       {web(3), "old+ old+ new", ""},
		"one is going":               {web(3), "old+ old+ old+-", ""},
		"one below is going":         {web(3), "old+- old+ old+", ""},
		"two":                        {web(3, rolling(0, "2")), "old+ old+ old+", "2 1"},
		"two, one is going":          {web(3, rolling(0, "2")), "old+ old+ new-", "1"},
		"more than there are":        {web(3, rolling(0, "9")), "old+ new+ old+", "2 0"},
		"partition":                  {web(3, rolling(2, "9")), "old+ old+ old+", "2"},
		"partition beyond":           {web(3, rolling(9, "9")), "old+ old+ old+", ""},
		"ordered, not available":     {web(3, rolling(0, "2")), "old+ old+ old", "2"},
		"parallel":                   {web(3, parallel), "old+ old+ old+", "2"},
		"parallel, broken first":     {web(3, parallel), "old old+ old+", "0"},
		"parallel, all broken":       {web(3, parallel), "old old old", "2 1 0"},
		"parallel, broken and more":  {web(4, parallel, rolling(0, "2")), "old old+ old+ old+", "0 3"},
		"parallel, broken is going":  {web(3, parallel), "old- old+ old+", ""},
		"parallel, below partition":  {web(3, parallel, rolling(1, "1")), "old old+ old+", ""},
		"parallel, broken new":       {web(3, parallel), "old+ old+ new", ""},
		"parallel, broken both ways": {web(3, parallel), "old old+ new", "0"},
		"parallel, over the budget":  {web(4, parallel), "old+ old new new", "1"},
		"not for long enough": {web(2, func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 10 }),
			"old+ new+", ""},
	} {
		var pods []*corev1.Pod
		for i, text := range strings.Fields(tt.pods) {
			revision, state := text[:3], text[3:]
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: map[string]string{appsv1.StatefulSetRevisionLabel: revision}}}
			if strings.Contains(state, "+") {
				pod.Status.Phase = corev1.PodRunning
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Second))}}
			}
			if strings.Contains(state, "-") {
				pod.DeletionTimestamp = &metav1.Time{}
			}
			pods = append(pods, pod)
		}
		got, err := statefulset.Victims(tt.set, pods, now)
		if strings.Join(got, " ") != tt.want || err != nil {
			t.Errorf("%s: %v, %v; want %s", name, got, err, tt.want)
		}
	}
	if _, err := statefulset.Victims(web(1, rolling(0, "x")), nil, now); err == nil {
		t.Error("a share that is none is no error")
	}
}

func TestMaxUnavailableOf(t *testing.T) {
	for value, want := range map[string]int{"3": 3, "0": 1, "10%": 1, "50%": 2, "100%": 5} {
		if got, err := statefulset.MaxUnavailable(web(5, rolling(0, value))); got != want || err != nil {
			t.Errorf("%s: %d, %v", value, got, err)
		}
	}
	unset := web(5, rolling(0, "3"))
	unset.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = nil
	if got, err := statefulset.MaxUnavailable(unset); got != 1 || err != nil {
		t.Errorf("unset: %d, %v", got, err)
	}
}

// TestOwners: who owns the claim of a pod follows from the retention policy, and what is not understood is left alone.
func TestOwners(t *testing.T) {
	const keep, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	for name, tt := range map[string]struct {
		policy   func(*appsv1.StatefulSet)
		pod, had string
		want     string
	}{
		"retained":               {keeping(keep, keep), "web-0", "", "same"},
		"retained, not any more": {keeping(keep, keep), "web-0", "set pod other", "other"},
		"retained, beside":       {keeping(keep, keep), "web-0", "controller", "same"},
		"no policy":              {func(*appsv1.StatefulSet) {}, "web-0", "set", ""},
		"unknown policy":         {keeping("x", "y"), "web-0", "set", ""},
		"with the set":           {keeping(drop, keep), "web-0", "", "set"},
		"with the set already":   {keeping(drop, keep), "web-0", "set", "same"},
		"not with the pod":       {keeping(drop, keep), "web-9", "pod", "set"},
		"not the controller":     {keeping(drop, keep), "web-0", "set?", "set"},
		"scaled down":            {keeping(keep, drop), "web-9", "", "pod"},
		"scaled down already":    {keeping(keep, drop), "web-9", "pod", "same"},
		"the pod no controller":  {keeping(keep, drop), "web-9", "pod?", "pod"},
		"scaled down and up":     {keeping(keep, drop), "web-0", "pod", ""},
		"not with the set":       {keeping(keep, drop), "web-0", "set", ""},
		"both":                   {keeping(drop, drop), "web-0", "", "set"},
		"both, scaled down":      {keeping(drop, drop), "web-9", "set", "pod"},
		"both, scaled up":        {keeping(drop, drop), "web-0", "pod", "set"},
		"beside an owner":        {keeping(drop, keep), "web-0", "other", "other set"},
		"another controller":     {keeping(drop, keep), "web-0", "controller", "same"},
		"another one as well":    {keeping(drop, keep), "web-0", "controller set", "controller"},
		"another one, scaled":    {keeping(keep, drop), "web-9", "controller", "same"},
		"one beside the pod":     {keeping(keep, drop), "web-9", "controller pod", "controller"},
		"of another set":         {keeping(drop, keep), "web-0", "oldset", "same"},
		"of another pod":         {keeping(drop, drop), "web-9", "oldpod", "same"},
		"retained, of its set":   {keeping(keep, keep), "web-9", "oldset pod", "same"},
		"under another name":     {keeping(drop, keep), "web-0", "alias", "set?"},
		"retained, of another":   {keeping(keep, keep), "web-9", "oldpod set", "same"},
	} {
		set := web(1, tt.policy)
		set.UID = "set"
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: tt.pod, Namespace: "ns", UID: "pod"}}
		claim := &corev1.PersistentVolumeClaim{}
		for _, owner := range strings.Fields(tt.had) {
			claim.OwnerReferences = append(claim.OwnerReferences, reference(owner, tt.pod))
		}
		refs, wrong := statefulset.Owners(claim, set, pod)
		var got []string
		for _, ref := range refs {
			text := string(ref.UID)
			if isController := ref.Controller != nil && *ref.Controller; isController != (text != "other") {
				text += "?"
			}
			got = append(got, text)
		}
		if !wrong {
			got = []string{"same"}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", name, got, tt.want)
		}
	}
}

// reference is an owner reference to what the word means.
func reference(owner, pod string) metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", Controller: new(true)}
	switch owner {
	case "pod", "oldpod":
		ref.APIVersion, ref.Kind, ref.Name = "v1", "Pod", pod
	case "pod?":
		ref.APIVersion, ref.Kind, ref.Name, ref.Controller, owner = "v1", "Pod", pod, nil, "pod"
	case "other":
		ref.Kind, ref.Controller = "Other", nil
	case "controller":
		ref.Kind = "Other"
	case "alias":
		ref.Kind, ref.Controller, owner = "Other", nil, "set"
	case "set?":
		ref.Controller, owner = nil, "set"
	}
	ref.UID = types.UID(owner)
	return ref
}

func TestStatus(t *testing.T) {
	full := appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2, CurrentRevision: "a", UpdateRevision: "b"}
	if got := statefulset.Complete(web(2), full); got.CurrentRevision != "b" || got.CurrentReplicas != 2 {
		t.Errorf("complete: %+v", got)
	}
	for name, change := range map[string]func(*appsv1.StatefulSetStatus){
		"replicas": func(s *appsv1.StatefulSetStatus) { s.Replicas = 3 },
		"ready":    func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas = 1 },
		"updated":  func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 1 },
	} {
		status := full
		if change(&status); statefulset.Complete(web(2), status).CurrentRevision != "a" {
			t.Errorf("%s: complete", name)
		}
	}
	for name, tt := range map[string]struct {
		change func(*appsv1.StatefulSetStatus)
		want   bool
	}{
		"nothing":             {func(*appsv1.StatefulSetStatus) {}, false},
		"collisions":          {func(s *appsv1.StatefulSetStatus) { s.CollisionCount = new(int32(1)) }, false},
		"an older generation": {func(s *appsv1.StatefulSetStatus) { s.ObservedGeneration = -1 }, false},
		"a newer generation":  {func(s *appsv1.StatefulSetStatus) { s.ObservedGeneration = 1 }, true},
		"available":           {func(s *appsv1.StatefulSetStatus) { s.AvailableReplicas = 1 }, true},
		"current revision":    {func(s *appsv1.StatefulSetStatus) { s.CurrentRevision = "c" }, true},
		"a condition":         {func(s *appsv1.StatefulSetStatus) { s.Conditions = []appsv1.StatefulSetCondition{{Type: "x"}} }, true},
	} {
		status := full
		if tt.change(&status); statefulset.Changed(full, status) != tt.want {
			t.Errorf("%s: changed %t", name, !tt.want)
		}
	}
}

func TestAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	pod := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-3 * time.Second))},
	}}}
	slow := web(1, func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 10 })
	waiting, done := &appsv1.StatefulSetStatus{ReadyReplicas: 1}, &appsv1.StatefulSetStatus{ReadyReplicas: 1, AvailableReplicas: 1}
	for name, tt := range map[string]struct {
		set    *appsv1.StatefulSet
		status *appsv1.StatefulSetStatus
		pods   []*corev1.Pod
		want   time.Duration
	}{
		"no need":     {web(1), waiting, nil, 0},
		"all are":     {slow, done, []*corev1.Pod{pod}, 0},
		"one will be": {slow, waiting, []*corev1.Pod{pod}, 7 * time.Second},
		"who knows":   {slow, waiting, nil, 10 * time.Second},
	} {
		if got := statefulset.Again(tt.set, tt.status, tt.pods, now); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
