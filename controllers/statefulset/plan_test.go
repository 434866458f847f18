package statefulset_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/controllers/statefulset"
	"github.com/keelson-dev/keelson/informer"
)

// member is a pod: its ordinal and the first letter of its phase, then "+" if it has been ready for a second, "-" if it is being
// deleted, "?" if it has not its labels, and after a colon the claim that is its volume data.
func member(text string, now time.Time) *corev1.Pod {
	text, claim, claimed := strings.Cut(text, ":")
	number := text[:strings.IndexAny(text, "PRSFU")]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-" + number, Namespace: "ns", UID: "pod"}}
	if !strings.Contains(text, "?") {
		pod.Labels = map[string]string{appsv1.StatefulSetPodNameLabel: pod.Name}
	}
	pod.Status.Phase = map[byte]corev1.PodPhase{
		'P': corev1.PodPending, 'R': corev1.PodRunning, 'S': corev1.PodSucceeded, 'F': corev1.PodFailed, 'U': corev1.PodUnknown,
	}[text[len(number)]]
	if strings.Contains(text, "+") {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Second))}}
	}
	if strings.Contains(text, "-") {
		pod.DeletionTimestamp = &metav1.Time{}
	}
	if claimed {
		v := corev1.Volume{Name: "data"}
		if claim != "" {
			v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
		}
		pod.Spec.Volumes = []corev1.Volume{v}
	}
	return pod
}

func TestPlan(t *testing.T) {
	now := time.Unix(1000, 0)
	slow := func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = 10 }
	const own = ":data-web-0"
	for name, tt := range map[string]struct {
		set    *appsv1.StatefulSet
		pods   string
		claims string // with "-" if it is being deleted, and the kind of its owner after a slash
		want   string
	}{
		"nothing there":          {web(2), "", "", "create web-0, "},
		"one is there":           {web(2), "0R+", "", "create web-1, "},
		"the first is not ready": {web(2), "0R", "", ""},
		"it is not running":      {web(2), "0U+", "", ""},
		"it is not available":    {web(2, slow), "0R+", "", ""},
		"it goes":                {web(2), "0R+-", "", ""},
		"all there":              {web(2), "0R+ 1R+", "", "settled"},
		"none wanted":            {web(0), "", "", "settled"},
		"one failed":             {web(2), "0F 1R+", "", "remove web-0, "},
		"it goes already":        {web(2), "0F- 1R+", "", ""},
		"one succeeded":          {web(2), "0S? 1R+", "", "remove web-0, "},
		"without labels":         {web(2), "0R+? 1R+", "", "update web-0, settled"},
		"without, not ready":     {web(2), "0R? 1R+", "", ""},
		"no ordinal":             {web(1), "0R+ 99999999999R+", "", "settled"},

		"parallel, nothing there":    {web(2, parallel), "", "", "create web-0, create web-1, settled"},
		"parallel, not ready":        {web(2, parallel), "0P? 1R-", "", "update web-0, settled"},
		"parallel, ended":            {web(2, parallel), "0F? 1S-?", "", "remove web-0, settled"},
		"parallel, too many":         {web(1, parallel), "0R+ 1R+ 2R 3R-", "", "remove web-2, remove web-1, settled"},
		"too many":                   {web(1), "0R+ 1R+ 2R+", "", "remove web-2, "},
		"the last goes":              {web(1), "0R+ 1R+ 2R+-", "", ""},
		"the last is not ready":      {web(1), "0R+ 1R+ 2R", "", "remove web-2, "},
		"two are not ready":          {web(1), "0R+ 1R 2R", "", ""},
		"another is not ready":       {web(1), "0R+ 1R 2R+", "", "remove web-2, "},
		"the last is not running":    {web(1), "0R+ 1R 2U+", "", ""},
		"the last is not available":  {web(0, slow), "1R 2R+", "", ""},
		"one that stays is not":      {web(1), "0R 1R+", "", ""},
		"both are not available yet": {web(0, slow), "1R+ 2R+", "", ""},

		"pending without claim":        {web(1, withClaims("data")), "0P" + own, "", "claims web-0, "},
		"pending with it":              {web(1, withClaims("data")), "0P" + own, "data-web-0", ""},
		"pending, and it goes":         {web(1, withClaims("data")), "0P" + own, "data-web-0-", "claims web-0, "},
		"pending, not its owner":       {web(1, parallel, withClaims("data"), keeping(drop, drop)), "0P" + own, "data-web-0", "claims web-0, settled"},
		"running without claim":        {web(1, withClaims("data")), "0R+" + own, "", "settled"},
		"running, and it goes":         {web(1, withClaims("data")), "0R+" + own, "data-web-0-", "settled"},
		"running, not its owner":       {web(1, withClaims("data"), keeping(drop, drop)), "0R+" + own, "data-web-0", "update web-0, settled"},
		"not ready, not its owner":     {web(1, withClaims("data"), keeping(drop, drop)), "0R" + own, "data-web-0", ""},
		"another volume":               {web(1, withClaims("data")), "0R+:", "data-web-0", "update web-0, settled"},
		"another claim":                {web(1, withClaims("data")), "0R+:data-web-1", "data-web-0", "update web-0, settled"},
		"no volume":                    {web(1, withClaims("data")), "0R+", "data-web-0", "update web-0, settled"},
		"too many, not their owner":    {web(0, withClaims("data"), keeping(keep, drop)), "0R+" + own, "data-web-0", "retain web-0, remove web-0, "},
		"claim of the pod before":      {web(1, withClaims("data"), keeping(keep, drop)), "", "data-web-0/Pod", ""},
		"in parallel":                  {web(2, parallel, withClaims("data"), keeping(keep, drop)), "", "data-web-0/Pod", "create web-1, settled"},
		"it does not go with that":     {web(1, withClaims("data"), keeping(drop, keep)), "", "data-web-0/Pod", "create web-0, "},
		"claim of the set before":      {web(1, withClaims("data"), keeping(keep, drop)), "", "data-web-0/StatefulSet", "create web-0, "},
		"a claim that is there before": {web(1, withClaims("data"), keeping(keep, drop)), "", "data-web-0", "create web-0, "},
	} {
		tt.set.UID = "set"
		var pods []*corev1.Pod
		for _, text := range strings.Fields(tt.pods) {
			pods = append(pods, member(text, now))
		}
		claims := map[string]*corev1.PersistentVolumeClaim{}
		for _, text := range strings.Fields(tt.claims) {
			text, owner, owned := strings.Cut(text, "/")
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: strings.TrimSuffix(text, "-")}}
			if claim.Name != text {
				claim.DeletionTimestamp = &metav1.Time{}
			}
			if owned {
				ref := metav1.OwnerReference{APIVersion: "v1", Kind: owner, Name: "web-0", UID: "before"}
				if owner == "StatefulSet" {
					ref.APIVersion, ref.Name = "apps/v1", "web"
				}
				claim.OwnerReferences = []metav1.OwnerReference{ref}
			}
			claims[claim.Name] = claim
		}
		if got := statefulset.Plan(tt.set, pods, claims, now); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestWrites: a set waits until the caches have what was written for it, and no longer.
func TestWrites(t *testing.T) {
	cache := func() statefulset.Sources {
		return statefulset.Sources{
			StatefulSets: informer.New[*appsv1.StatefulSet](nil, informer.Options{}), Pods: informer.New[*corev1.Pod](nil, informer.Options{}),
			Claims: informer.New[*corev1.PersistentVolumeClaim](nil, informer.Options{}),
		}
	}
	set := &metav1.ObjectMeta{Name: "web", Namespace: "ns"}
	meta := func(version int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "x", Namespace: "ns", ResourceVersion: fmt.Sprint(version)}
	}
	for name, wrote := range map[string]func(w statefulset.Writes, version int){
		"set":   func(w statefulset.Writes, v int) { w.Wrote(set, &appsv1.StatefulSet{ObjectMeta: meta(v)}) },
		"pod":   func(w statefulset.Writes, v int) { w.Wrote(set, &corev1.Pod{ObjectMeta: meta(v)}) },
		"claim": func(w statefulset.Writes, v int) { w.Wrote(set, &corev1.PersistentVolumeClaim{ObjectMeta: meta(v)}) },
	} {
		in, w := cache(), statefulset.NewWrites()
		at := func(version int) bool {
			in.StatefulSets.Put(&appsv1.StatefulSet{ObjectMeta: meta(version)})
			in.Pods.Put(&corev1.Pod{ObjectMeta: meta(version)})
			in.Claims.Put(&corev1.PersistentVolumeClaim{ObjectMeta: meta(version)})
			return w.Seen(set, in)
		}
		if !at(3) {
			t.Errorf("%s: waits for nothing", name)
		}
		wrote(w, 5)
		wrote(w, 10)
		wrote(w, 7)
		if at(9) || !at(10) || !at(3) { // the last one again, but it was forgotten
			t.Errorf("%s: does not wait for the last write, or again", name)
		}
		wrote(w, 5)
		if w.Forget(set); !at(4) {
			t.Errorf("%s: waits for what was to be forgotten", name)
		}
	}

	in, w := cache(), statefulset.NewWrites()
	w.Wrote(set, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "x"}})
	if in.Pods.Put(&corev1.Pod{ObjectMeta: meta(1)}); !w.Seen(set, in) {
		t.Error("waits for a version that cannot be compared")
	}
	pod := func(uid string, ends bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta(1)}
		p.UID = "u"
		if uid != "" {
			p.UID = "v"
		}
		if ends {
			p.DeletionTimestamp = &metav1.Time{}
		}
		return p
	}
	for name, tt := range map[string]struct {
		cached *corev1.Pod
		want   bool
	}{"still there": {pod("", false), false}, "ends": {pod("", true), true}, "another": {pod("v", false), true}} {
		in.Pods.Put(tt.cached)
		w.Deleted(set, pod("", false))
		if got := w.Seen(set, in); got != tt.want {
			t.Errorf("deleted, %s: seen %t", name, got)
		}
		w.Forget(set)
	}
	w.Deleted(set, pod("", false))
	if in.Pods.Drop("ns", "x"); !w.Seen(set, in) {
		t.Error("waits for a pod that is gone")
	}
}
