// Package refusals lists what a pod or a node can request that keelson does not implement yet, with the package that
// refuses it and how that is visible: nothing that the API accepts is silently ignored. The list is empty once
// everything is implemented.
//
// Tests verify the list. Every row is exercised: it is requested through the API, and the refusal must appear as the
// row says. Every field of the API's PodSpec and NodeSpec, at every level, must be in a row or in the table of
// implemented fields, so a test fails for new fields of an API release. The README's list of missing features is made
// from the rows.
package refusals
