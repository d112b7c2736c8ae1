"""The functions in each file of kernels: name, kind, the parameters that have a type. Written by scripts/index.py; do
not edit."""

FUNCTIONS = {
    "activations": (
        "clip_gradient:inline: glu:kernel:a,out,outer,n glu_gradient:kernel:g,a,out,outer,n "
        "hardtanh:inline: "
    ),
    "arithmetic": (
        "absolute_half:inline: angle:inline: arctanh:inline: clip_by:inline: "
        "copysign_gradient:inline: cube:inline: deg2rad:inline: floor_divide:inline: "
        "floor_divide_whole:inline: fmax:inline: fmin:inline: fmod:inline: fmod_whole:inline: "
        "frac:inline: heaviside:inline: hypot:inline: isfinite:inline: isinf:inline: "
        "isnan:inline: isneginf:inline: isposinf:inline: left_shift:inline: "
        "logaddexp2:inline: logaddexp:inline: logical_and:inline: logical_not:inline: "
        "logical_or:inline: logical_xor:inline: logit:inline: logit_gradient:inline: "
        "maximum:inline: minimum:inline: negative_half:inline: nextafter:inline: "
        "power:inline: quotient:inline: quotient_of_one:inline: rad2deg:inline: "
        "reciprocal:inline: remainder:inline: remainder_whole:inline: remaining:inline: "
        "replace_nonfinite:inline: right_shift:inline: round_down:inline: round_up:inline: "
        "sign:inline: sinc:inline: square:inline: trunc_divide:inline: xlogy:inline: "
    ),
    "attention": (
        "attention:kernel:q,k,v,mask,out,tops,sums,scale,reach,down exp_down:inline: "
        "few_scores:routine: "
        "gradients:kernel:g,q,k,v,mask,out,sums,means,gq,gk,gv,scale,reach head_of:inline: "
        "multiply:inline: pack_keys:routine: scaled_rows:routine: seen_only:inline: "
        "seen_products:inline: slopes_of:routine: softmax_of:routine: with_mask:inline: "
        "zeroed:routine: "
    ),
    "attributes": (
        "half:inline: size:inline: "
    ),
    "bags": (
        "bag_factors_gradient:kernel:g,weight,indices,bag,out,bad,count,inner,n,rows,padding "
        "bags:kernel:weight,indices,offsets,factors,out,bag,sizes,places,bad,n,count,inner,padding "
        "bags_gradient:kernel:g,indices,bag,sizes,factors,out,bad,count,inner,n,rows,padding "
        "bin_of:inline: counts:kernel:x,weights,tables,n,bins,parts,many "
        "histogram:kernel:points,edges,begins,weights,out,n,dims largest_of:inline: "
        "rising:inline: summed:inline: tops:kernel:x,most,n within:inline: "
    ),
    "batch_norm": (
        "column_totals:inline: counted:inline: finished:inline: "
        "infer_moved:kernel:running_mean,running_var,mean,var,by,unbiased,plan "
        "moved:kernel:running_mean,running_var,mean,var,n,by,unbiased "
        "planes_backward:kernel:g,x,weight,mean,var,y,gx,gw,gb,n,channels,size,eps "
        "planes_norm:kernel:x,weight,bias,mean,var,z,y,n,channels,size,eps "
        "planes_scale:kernel:x,weight,bias,mean,var,y,n,channels,size,eps "
        "planes_totals:inline: products:inline: "
        "rows_backward:kernel:g,x,weight,mean,var,y,gx,gw,gb,parts,rows,channels,eps "
        "rows_norm:kernel:x,weight,bias,mean,var,z,y,parts,rows,channels,eps "
        "rows_scale:kernel:x,weight,bias,mean,var,y,parts,rows,channels,eps scale:inline: "
        "scaled:inline: shift:inline: strip_moments:inline: strip_sums:inline: "
    ),
    "bessel": (
        "airy_ai:inline: chebyshev:inline: first_kind:inline: first_near:inline: i0:inline: "
        "i0e:inline: i1:inline: i1e:inline: j0:inline: j1:inline: k0:inline: k0e:inline: "
        "k1:inline: k1e:inline: modified:inline: oscillating:inline: scaled:inline: "
        "second_kind:inline: spherical_j0:inline: y0:inline: y1:inline: "
    ),
    "broadcast": (
        "broadcast:kernel:plan,a,b,address compared:inline: each:inline: "
        "infer:kernel:a,b,itemsize,plan row:routine: "
    ),
    "call_arguments": (
        "array_of:inline: arrays_of:inline: edge_of:inline: no_modes:inline: read:inline: "
        "records:inline: takes:inline: "
    ),
    "call_list": (
        "carry_out:entry:self,objects,count clear:inline: "
    ),
    "call_nodes": (
        "edges_tuple:inline: node_of:inline: same_shape:inline: saved_tuple:inline: "
        "sizes_tuple:inline: static_of:inline: statics_tuple:inline: with_item:inline: "
    ),
    "calls": (
        "all_views:inline: arguments_of:inline: as_array:inline: "
        "call:entry:self,objects,count,keywords call_into:entry:self,objects,count,keywords "
        "call_list:entry:self,objects,count,keywords "
        "call_view:entry:self,objects,count,keywords kind_of:inline: laid_out:inline: "
        "put_right:routine: several:inline: to_copy:inline: version_of:inline: "
        "view_of:inline: wrapped:inline: write_counted:inline: written_copy:inline: "
    ),
    "columns": (
        "col2im:kernel:a,out,planes,H,W,oh,ow,kh,kw,dh,dw,ph,pw,sh,sw "
        "im2col:kernel:x,out,planes,H,W,oh,ow,kh,kw,dh,dw,ph,pw,sh,sw "
    ),
    "conv": (
        "convolve:kernel:x,w,bias,y,plan convolve_weight:kernel:x,g,y,parts,plan "
        "list_places:routine: pack_places:routine: spread:kernel:x,y,plan tile:routine: "
        "tiles:inline: turn:kernel:w,y,plan turn_block:routine: write_columns:routine: "
        "write_lines:routine: write_places:routine: write_rows:routine: "
    ),
    "conv_direct": (
        "add_column:inline: add_image:inline: add_line:inline: add_line_to_pairs:inline: "
        "add_products:inline: add_seen:inline: add_to_taps:inline: "
        "depthwise:kernel:x,w,bias,y,plan depthwise_transposed:kernel:g,w,bias,y,KH,KW,plan "
        "depthwise_weight:kernel:x,g,y,parts,plan direct:kernel:x,w,bias,y,plan "
        "direct_transposed:kernel:g,w,bias,y,plan direct_weight:kernel:x,g,y,plan "
        "fetch_below:inline: line_load:inline: line_masks:inline: store_line:inline: "
        "store_pairs:inline: store_tile:inline: tile:inline: tile_masks:inline: "
    ),
    "conv_small": (
        "small:kernel:a,b,bias,y,plan "
    ),
    "copy": (
        "copied:routine: copy:kernel:out,a,bad,size dimensions:inline: "
        "join:kernel:items,out,rows,length join_any:kernel:items,out,bad,axis,length "
        "move:inline: move_all:kernel:a,out,n move_back:inline: move_over:kernel:out,a,n "
        "move_rows:routine: offsets:inline: roll:kernel:a,out,rows,n,front square:inline: "
        "transposed:routine: triangle:kernel:a,out,outer,m,n,diagonal "
    ),
    "cross_entropy": (
        "added:kernel:facts,chunks "
        "columns_entropy:kernel:x,target,weight,losses,sums,facts,outer,n,inner,skip,smoothing "
        "columns_entropy_backward:kernel:g,x,target,weight,sums,out,outer,n,inner,skip,smoothing,divisor,step "
        "entropies:inline: entropy_total:kernel:facts,loss,divisor,wrong,mean "
        "infer_entropy:kernel:a,target,weight,skip,smoothing,plan "
        "infer_total:kernel:facts,mean,plan over:inline: "
        "rows_entropy:kernel:x,target,weight,losses,sums,facts,rows,n,skip,smoothing "
        "rows_entropy_alone:kernel:x,target,losses,sums,facts,rows,n,skip,smoothing "
        "rows_entropy_backward:kernel:g,x,target,weight,sums,out,rows,n,skip,smoothing,divisor,step "
    ),
    "cross_products": (
        "cross_columns:kernel:a,b,out,outer,inner cross_rows:kernel:a,b,out,outer,inner "
        "crossed:inline: infer_cross:kernel:a,b,axis,plan infer_kron:kernel:a,b,plan "
        "infer_trace:kernel:a,plan kron:kernel:a,b,out,m,n,p,q,s,t,row "
        "trace:kernel:a,out,n,step "
    ),
    "ctc": (
        "ctc_loss:kernel:x,classes,jump,heard,lengths,losses,alpha,space,steps,n,count,places "
        "ctc_loss_gradient:kernel:g,x,classes,jump,heard,lengths,alpha,out,space,steps,n,count,places "
        "either:inline: ending:inline: "
    ),
    "distances": (
        "add_slopes:inline: distances:kernel:x,y,out,batches,n,m,k "
        "distances_gradient:kernel:g,d,x,y,out,batches,n,m,k,down,across "
        "distances_of_row:inline: joined:inline: own_distances:kernel:x,y,out,n,k "
        "own_distances_gradient:kernel:g,d,x,out,n,k own_slopes_of_columns:inline: "
        "slopes_of_columns:inline: with_slope:inline: "
    ),
    "edges": (
        "last_three:inline: mirrored:inline: "
        "pad:kernel:a,out,value,outer,d,h,w,d_low,h_low,w_low,d_out,h_out,w_out "
        "pad_adjoint:kernel:a,out,outer,d,h,w,d_low,h_low,w_low,d_wide,h_wide,w_wide "
        "padded:kernel:a,value,d0,d1,h0,h1,w0,w1,plan planes_of:inline: "
        "unpadded:kernel:a,d0,d1,h0,h1,w0,w1,plan "
    ),
    "elementwise": (
        "above:inline: add_product:inline: add_quotient:inline: add_scaled:inline: "
        "between:inline: choose:kernel:condition,a,b,out,n fill:kernel:out,value,n "
        "gelu:inline: gelu_slope:inline: gelu_tanh:inline: gelu_tanh_slope:inline: "
        "mish:inline: relu:inline: rsqrt:inline: sigmoid_of_gelu:inline: silu:inline: "
        "silu_slope:inline: softplus:inline: tanh_of_softplus:inline: "
    ),
    "extremes": (
        "beyond:inline: both_columns:kernel:x,out,places,outer,n,inner "
        "both_parts:kernel:x,out,places,outer,n both_rows:kernel:x,out,places,rows,n "
        "by_columns:routine: column_extremes:inline: elements:inline: extreme_of:inline: "
        "extreme_parts:kernel:x,out,outer,n extreme_rows:kernel:x,out,rows,n "
        "place_columns:kernel:x,places,outer,n,inner place_of:inline: "
        "place_parts:kernel:x,places,outer,n place_rows:kernel:x,places,rows,n "
    ),
    "few": (
        "complex:kernel:real,imag,plan complex_of:kernel:real,imag,out,n paired:inline: "
        "polar:kernel:abs,angle,plan polar_of:kernel:abs,angle,out,n "
        "renorm:kernel:input,p,dim,maxnorm,plan shortened:kernel:a,out,outer,n,inner,most "
    ),
    "fft": (
        "across:inline: columns:inline: complex_at:inline: "
        "few_points:kernel:x,w,out,n0,n1,n2,t0,t1,t2,m,s,points,step,p "
        "few_points_result:kernel:a,w,count,n,p,plan "
        "fft_rows:kernel:x,out,roots,between,order,rows,n,sign,scale four:inline: "
        "irfft_rows:kernel:x,out,roots,between,order,halves,rows,n,scale line:routine: "
        "pair:inline: put:inline: "
        "rfft_rows:kernel:x,out,roots,between,order,halves,rows,n,scale rotated:inline: "
        "step:inline: times:inline: turned:inline: two:inline: "
    ),
    "fft_lines": (
        "columns:kernel:x,out,roots,factors,outer,n,inner,sign,scale halves_joined:inline: "
        "odd:inline: one_pass:inline: passes:routine: read:inline: "
        "real_rows:kernel:x,out,roots,factors,halves,count,n,scale "
        "rows:kernel:x,out,roots,factors,count,n,sign,scale "
        "rows_to_real:kernel:x,out,roots,factors,halves,count,n,scale together:inline: "
        "weighted:inline: write:inline: "
    ),
    "fold": (
        "alone:inline: as_type:inline: averaged:inline: columns:inline: "
        "fold_columns:kernel:x,out,outer,n,inner,part fold_parts:kernel:x,out,outer,n "
        "fold_rows:kernel:x,out,outer,n,part folded_row:inline: joined:inline: larger:inline: "
        "plus:inline: plus_number:inline: plus_one:inline: plus_square:inline: root:inline: "
        "smaller:inline: take_rows:inline: taken:inline: times:inline: "
    ),
    "fused": (
        "fused:kernel:address,items,kind,plan,numbers,refused "
        "row:entry:at,steps,numbers,start,end value:inline: "
    ),
    "gemm": (
        "added:inline: block:routine: block_packed:routine: convert:kernel:a,out,n "
        "cut:inline: finish:routine: joined:kernel:parts,c,n,spans matrix_at:routine: "
        "pack:routine: pack_columns:routine: pack_rows:routine: pack_tiles:routine: "
        "pair_rows:kernel:a,out,outer,rows,n product:kernel:a,b,c,row,parts,how,alpha "
        "rounded_up:inline: shape_of:inline: tile:routine: tiles:inline: transposed:inline: "
        "turned:inline: wanted:inline: "
    ),
    "gemv": (
        "add_row:routine: columns:kernel:matrix,vectors,out,row,ri,rj deliver:routine: "
        "dot:kernel:a,b,parts,out,n dots:routine: gather_vectors:routine: gathered:inline: "
        "infer_outer_added:kernel:input,a,b,beta,alpha,plan "
        "outer:kernel:a,a0,step,b,b0,c,batch,n,m "
        "outer_added:kernel:to,a,b,c,n,m,step,s,t,beta,alpha places:inline: plan:inline: "
        "rows:kernel:matrix,vectors,out,row,ri,rj sums:routine: "
    ),
    "grid": (
        "along:inline: brought:inline: far:inline: far_slope:inline: "
        "grid_gradient:kernel:g,x,grid,out,N,C,D,H,W,P "
        "image_gradient:kernel:g,grid,gx,N,C,D,H,W,P in_elements:inline: near:inline: "
        "near_slope:inline: taps:inline: values:kernel:x,grid,y,N,C,D,H,W,P whole:inline: "
    ),
    "halves": (
        "at:inline: loop_by_single:entry:args,size,steps,plan "
    ),
    "header": (
        "alike:inline: dense:inline: dims_of:inline: in_order:inline: row_major:inline: "
        "same_shape:inline: same_strides:inline: shape_of:inline: size_of:inline: "
        "strides_like:inline: strides_of:inline: writeable:inline: "
    ),
    "incomplete_gamma": (
        "any_of:inline: gammainc:inline: gammaincc:inline: incomplete:inline: "
        "lower_series:inline: prefactor:inline: upper_fraction:inline: "
    ),
    "index": (
        "below:inline: clear:kernel:z,n fill_along:kernel:z,index,bad,outer,n,k,inner,value "
        "fill_masked:kernel:z,mask,value,n "
        "fill_slices:kernel:z,index,value,bad,outer,n,k,inner "
        "fill_slices_with:kernel:z,index,bad,outer,n,k,inner,value "
        "filled:kernel:a,mask,out,n,value gather_along:kernel:a,index,out,bad,outer,n,k,inner "
        "look:kernel:x,bad,n,size look_through:routine: "
        "mean_along:kernel:z,index,values,bad,outer,n,k,inner "
        "mean_slices:kernel:z,index,values,bad,outer,n,k,inner "
        "pair_places:kernel:first,second,out,bad,k,n,m pick:inline: put_slice:inline: "
        "put_slices:kernel:z,index,values,bad,outer,n,k,inner,step,parts "
        "take_pairs:kernel:a,first,second,out,bad,n,m,k "
        "take_places:kernel:a,index,out,bad,n,k "
        "take_slices:kernel:a,index,out,bad,outer,n,k,inner times_first:inline: "
        "together:inline: write_along:kernel:z,index,values,bad,outer,n,k,inner "
    ),
    "index_calls": (
        "along:inline: at_slices:inline: elements_written:inline: "
        "gathered:kernel:a,index,axis,plan has_slices:inline: holds:inline: "
        "index_add:kernel:input,dim,index,source,alpha,plan "
        "index_copy:kernel:input,dim,index,source,plan "
        "index_fill:kernel:input,dim,index,value,plan "
        "index_reduce:kernel:input,dim,index,source,reduce,include_self,plan "
        "index_select:kernel:input,dim,index,plan masked:kernel:z,mask,value,plan "
        "masked_fill:kernel:input,mask,value,plan means_apart:inline: number_written:inline: "
        "scatter:kernel:input,dim,index,src,plan "
        "scatter_reduce:kernel:input,dim,index,src,reduce,include_self,plan "
        "scatter_value:kernel:input,dim,index,value,plan "
        "scattered:kernel:z,index,values,axis,plan slices_put:kernel:z,index,values,axis,plan "
        "slices_written:inline: take:kernel:input,index,plan taken:kernel:a,index,axis,plan "
        "taken_along:inline: taken_in_pairs:kernel:a,first,second,plan "
    ),
    "inverse_trigonometry": (
        "arccos:inline: arccosh:inline: arcsin:inline: arcsin_of_part:inline: arcsinh:inline: "
        "arctan2:inline: arctan:inline: arctan_of_part:inline: cosh:inline: half_exp:inline: "
        "less_than:inline: sinh:inline: "
    ),
    "keys": (
        "key:inline: nan_key:inline: rising:inline: "
    ),
    "lapack": (
        "cholesky:kernel:potrf,a,out,info,uplo cholesky_inverse:kernel:potri,a,out,info,uplo "
        "cholesky_solve:kernel:potrs,a,b,space,out,uplo clear:inline: columns:inline: "
        "eig:kernel:geev,a,copy,parts,vectors,values,out,info,space,room,real_space,job "
        "eigh:kernel:syevd,a,values,out,info,space,room,real_space,real_room,places,places_room,job,uplo "
        "geqrf:kernel:routine,a,out,tau,space,room "
        "ldl_factor:kernel:sytrf,a,out,pivots,info,places,space,room "
        "ldl_solve:kernel:sytrs,a,pivots,b,space,places,out located:inline: "
        "lu_factor:kernel:getrf,a,out,pivots,info,space "
        "lu_inverse:kernel:getri,lu,pivots,places,space,room,n,count "
        "lu_solve:kernel:getrs,a,pivots,b,space,places,out,trans "
        "lu_unpack:kernel:a,pivots,order,permutation,lower,upper numbers:inline: "
        "orgqr:kernel:routine,a,tau,out,space,room,wide,reflections "
        "ormqr:kernel:routine,a,tau,c,factors,out,space,room,reflections,side,trans "
        "pairs:inline: solve:kernel:gesv,a,b,space,places,out,info "
        "solve_triangular:kernel:trsm,a,b,out,side,upper,diag stack:inline: "
        "svd:kernel:gesdd,a,copy,u,values,v,info,space,room,real_space,places,job,width,height "
        "texts:inline: upper_triangle:kernel:a,out,rows "
    ),
    "largest": (
        "first_few:kernel:x,out,indices,rows,n,k,flip,ordered "
        "first_of_some:kernel:x,which,out,indices,keys,places,rows,n,k,flip,ordered "
        "first_ones:routine: put:inline: "
    ),
    "layout": (
        "as_new:inline: channels_last:inline: clearly_right:inline: compared:routine: "
        "itemsize_of:inline: laid_like:inline: lies_as:inline: pack:inline: step_of:inline: "
        "told_apart:inline: "
    ),
    "libm": (
        "both_of_each:kernel:x,sine,cosine,n each_element:kernel:x,out,n "
    ),
    "likelihood": (
        "cross_entropy_of:inline: "
        "gradient_of_rows:kernel:g,target,out,wrong,rows,n,reduction,skip "
        "infer_gradient:kernel:g,target,n,reduction,skip,plan "
        "infer_losses:kernel:a,target,reduction,skip,plan infer_pairs:kernel:a,b,plan "
        "losses_of_pairs:kernel:a,b,out,wrong,n "
        "losses_of_rows:kernel:x,target,out,wrong,rows,n,reduction,skip "
    ),
    "loops": (
        "first_zero:kernel:x,n,place loop:kernel:args,n_at,steps "
        "loop_of_vectors:kernel:args,n_at,steps "
    ),
    "margin": (
        "labels:kernel:x,y,is_label,out,wrong,N,C "
        "labels_gradient:kernel:g,x,y,is_label,out,wrong,N,C,step,scale "
        "one_class:kernel:x,y,w,out,wrong,N,C,margin "
        "one_class_gradient:kernel:g,x,y,w,out,wrong,N,C,margin,step,scale "
    ),
    "mask": (
        "alike:inline: apart_by_dimension:inline: chosen:inline: "
        "coordinates:kernel:x,starts,out,n,sizes,dims,total counted:kernel:x,starts,n "
        "expand_few:kernel:values,mask,out,n few:inline: few_coordinates:kernel:a,out,n,total "
        "few_expanded:kernel:values,mask,plan few_nonzero:kernel:a,plan "
        "few_placed:kernel:z,mask,values,plan few_selected:kernel:a,mask,plan "
        "how_many:inline: is_set:inline: place_few:kernel:z,mask,values,n "
        "placed:kernel:mask,values,starts,out,n places_of:kernel:x,starts,out,n "
        "select_few:kernel:a,mask,out,n selected:kernel:mask,a,starts,out,n "
    ),
    "math": (
        "erf:inline: erfc:inline: erfcx:inline: exp2:inline: exp:inline: exp_below:inline: "
        "exp_normal:inline: expm1:inline: horner:inline: least_exponent:inline: log10:inline: "
        "log1p:inline: log1p_of_exp:inline: log2:inline: log:inline: log_ends:inline: "
        "log_reduced:inline: monic:inline: normal_below:inline: normal_parts:inline: "
        "power_of_two:inline: reduced:inline: sigmoid:inline: tanh:inline: "
    ),
    "norm": (
        "block_of:inline: "
        "groups_norm:kernel:x,weight,bias,y,mean,rstd,rows,groups,each,size,eps "
        "groups_norm_backward:kernel:g,x,weight,gx,gw,gb,parts,rows,groups,each,size,eps "
        "infer_groups_norm:kernel:a,weight,bias,groups,eps,plan "
        "infer_row_norm:kernel:a,weight,bias,n,eps,plan "
        "infer_row_norm_kept:kernel:a,weight,bias,n,eps,plan joint_step:inline: "
        "joint_sums:inline: moments:inline: normalise:inline: plan_rows:inline: "
        "row_lengths:kernel:x,out,rows,n row_norm:kernel:x,weight,bias,y,rows,n,eps "
        "row_norm_backward:kernel:g,x,weight,gx,gw,gb,parts,rows,n,eps "
        "row_norm_kept:kernel:x,weight,bias,y,mean,rstd,rows,n,eps row_statistics:inline: "
        "total_of_pieces:inline: "
    ),
    "norm_last": (
        ""
        "groups_last:kernel:x,weight,bias,y,mean,rstd,parts,tables,samples,size,groups,each,eps "
        "groups_last_backward:kernel:g,x,weight,gx,gw,gb,parts,tables,samples,size,groups,each,eps "
        "moments_of_channels:routine: moments_of_group:inline: sums_of_channels:routine: "
    ),
    "numbers": (
        ""
    ),
    "peak": (
        "multiply_adds:kernel:out,threads,count "
    ),
    "pointwise": (
        ""
    ),
    "polynomials": (
        "by_angle:inline: chebyshev:inline: chebyshev_step:inline: chebyshev_t:inline: "
        "chebyshev_u:inline: chebyshev_v:inline: chebyshev_w:inline: hermite:inline: "
        "hermite_h:inline: hermite_he:inline: hermite_step:inline: laguerre_l:inline: "
        "laguerre_step:inline: legendre_p:inline: legendre_step:inline: "
        "probabilist_step:inline: recurrence:inline: shifted_chebyshev_t:inline: "
        "shifted_chebyshev_u:inline: shifted_chebyshev_v:inline: shifted_chebyshev_w:inline: "
    ),
    "pool": (
        "add:inline: add_places:kernel:g,places,out,wrong,images,count,size,C "
        "averages:kernel:x,counts,out,planes,D,H,W,od,oh,ow,kd,kh,kw,sd,sh,sw,pd,ph,pw "
        "averages_gradient:kernel:g,counts,out,planes,D,H,W,od,oh,ow,kd,kh,kw,sd,sh,sw,pd,ph,pw "
        "columns:inline: inside:inline: larger:inline: largest:inline: lowest_of:inline: "
        "max_windows:kernel:x,out,places,planes,D,H,W,od,oh,ow,kd,kh,kw,sd,sh,sw,pd,ph,pw,dd,dh,dw "
        "piece:inline: put:inline: put_places:kernel:x,places,out,wrong,planes,count,size "
        "reach:inline: summed:inline: take_places:kernel:x,places,out,wrong,planes,count,size "
        "within:inline: "
    ),
    "pool_last": (
        "averages:kernel:x,counts,out,images,C,H,W,oh,ow,kh,kw,sh,sw,ph,pw "
        "averages_gradient:kernel:g,counts,out,images,C,H,W,oh,ow,kh,kw,sh,sw,ph,pw "
        "largest:inline: "
        "max_windows:kernel:x,out,places,images,C,H,W,oh,ow,kh,kw,sh,sw,ph,pw,dh,dw "
    ),
    "random": (
        "between:inline: cauchys:kernel:state,out,n,median,sigma "
        "chosen:kernel:weights,uniform,sums,out,rows,k,n cos_sin:inline: "
        "doubles:kernel:state,out,n doubles_between:kernel:state,out,n,width,low,high "
        "drawn_normals:kernel:state,x,n,mean,std each_pair:inline: each_word:inline: "
        "exponentials:kernel:state,out,n,scale floats:kernel:state,out,n "
        "floats_between:kernel:state,out,n,width,low,high geometrics:kernel:state,out,n,scale "
        "hits:kernel:state,out,n,below,value integers:kernel:state,out,n,low,span,inverse "
        "judged:kernel:weights,found,rows,k log_of:inline: made_normal:routine: mixed:inline: "
        "next_wide:inline: next_word:inline: normals:kernel:x,n,mean,std "
        "order:kernel:state,out,n pairs_apart:kernel:x,rest,angle,n "
        "pairs_together:kernel:log,cosine,sine,x,n,mean,std remainder:inline: "
        "scalar_normals:kernel:state,out,n,mean,std,spare seeded:kernel:key,n,seed "
        "slopes:kernel:state,x,out,n,width,low tempered:inline: twist:routine: unit:inline: "
        "unit_wide:inline: wide_words:kernel:state,out,n words:kernel:state,out,n "
    ),
    "recurrent": (
        "advance:routine: begin:routine: block:routine: cell:inline: exp_parts:inline: "
        "finish:routine: "
        "layer:kernel:x,w_ih,w_hh,bias,own_bias,h,c,y,last_h,last_c,kept,work,places,steps,n,features,size,xt,xr,yt,yr,keep,reverse,ragged,ahead,height,grain,copies "
        "pack:routine: pack_bias:routine: pack_gates:routine: parts_of:inline: place:inline: "
        "positive:inline: saved_at:inline: sigmoid:inline: "
        "step:kernel:x,w_ih,w_hh,bias,own_bias,h,c,y,last_h,last_c,kept,work,n,features,size,xr,keep "
        "tanh:inline: tile:routine: "
    ),
    "recurrent_gradients": (
        ""
        "gradients:kernel:g,y,w,h,c,kept,slopes,outer,dh,dc,work,places,steps,n,size,gt,gr,yt,yr,reverse,ragged,height,grain,copies,whole "
        "move:routine: pack_units:routine: retreat:routine: slopes_of:inline: "
    ),
    "reduce": (
        "averaged:inline: exact_moments:inline: less_rounding:inline: "
        "moments_of_rows:kernel:x,mean,squares,rows,n square_apart:inline: "
        "squares_apart:kernel:x,y,out,n sum_parts:kernel:x,out,rows,n "
        "sum_rows:kernel:x,out,rows,n "
        "variance_columns:kernel:x,out,means,outer,n,inner,correction "
        "variance_rows:kernel:x,out,means,rows,n,correction "
    ),
    "rejection": (
        "binomial_by_rejection:inline: binomials:kernel:state,rows,out,n "
        "gammas:kernel:state,rows,out,n,squeeze,spare gaps_summed:inline: multiplied:inline: "
        "normal:inline: poisson_by_rejection:inline: poissons:kernel:state,rates,out,n "
        "stirling_tail:routine: uniform:routine: "
    ),
    "resample": (
        "across:kernel:x,y,begin,place,weight,ends,rows,n,m "
        "down:kernel:x,y,begin,place,weight,outer,n,m,inner read_window:routine: "
        "summed:inline: write_block:routine: "
    ),
    "rows": (
        "itself:inline: product:inline: row_largest:inline: row_total:inline: "
        "row_total_of_two:inline: rows_in_chunk:inline: rows_of:inline: shared:inline: "
        "tree:inline: "
    ),
    "scan": (
        "joined:inline: replaces:inline: running:kernel:x,out,outer,n,inner "
        "running_extreme:kernel:x,out,places,outer,n,inner "
        "running_log:kernel:x,out,outer,n,inner "
    ),
    "schemes": (
        ""
    ),
    "selection": (
        "before:inline: bring_to_place:routine: cut:inline: depth:inline: exchange:inline: "
        "from_heap:inline: insert_each:inline: make_heap:inline: partition:routine: "
        "sink:routine: sort_unstably:routine: "
    ),
    "sequences": (
        "counted:kernel:out,n,start,step rounded:inline: spaced:kernel:out,n,start,end "
        "spaced_halves:kernel:out,n,start,end "
    ),
    "shape_inference": (
        "along_axis:inline: among_few:kernel:a,tests,plan apart:inline: at_axis:inline: "
        "by_strides:inline: chosen:kernel:a,axis,keep,which,plan "
        "chosen_kind:kernel:a,axis,keep,plan chosen_median:kernel:a,axis,keep,skip_nan,plan "
        "copied:kernel:out,a,plan first_places:kernel:a,axis,keep,plan in_memory:inline: "
        "in_order_along:kernel:a,axis,descending,plan item_of:inline: "
        "joined:kernel:items,axis,plan largest_few:kernel:a,k,axis,most,ordered,plan "
        "like:inline: listed:inline: note:inline: one_along:inline: reach_of:inline: "
        "reduced:inline: reduction:kernel:a,axis,keep,plan rolled:kernel:a,shift,axis,plan "
        "rows_only:kernel:a,axis,keep,plan scanned:kernel:a,axis,plan "
        "softmaxed:kernel:a,axis,plan sought:kernel:seq,a,plan "
        "triangular:kernel:a,diagonal,plan variance:kernel:a,axis,keep,correction,plan "
        "without:inline: "
    ),
    "shared_rows": (
        "added:kernel:items,factor,n written:kernel:items,kind,dtype,factor,refused,n "
    ),
    "small_product": (
        ""
        "accumulate:kernel:input,a,b,out,batch,m,k,n,a0,a1,a2,b0,b1,b2,how,s0,s1,s2,beta,alpha "
        "finished:inline: infer:inline: infer_accumulate:kernel:input,a,b,beta,alpha,plan "
        "infer_linear:kernel:a,weight,bias,plan infer_product:kernel:a,b,plan "
        "infer_turned:kernel:a,weight,bias,plan "
        "linear:kernel:a,b,row,out,batch,m,k,n,a0,a1,a2,b0,b1,b2,how multiply:inline: "
        "product:kernel:a,b,out,batch,m,k,n,a0,a1,a2,b0,b1,b2,how "
    ),
    "softmax": (
        "column_place:inline: columns_softmax:kernel:x,out,outer,n,inner "
        "columns_softmax_backward:kernel:g,y,out,outer,n,inner few_softmax:kernel:x,out,rows "
        "log_sum:inline: middling_softmax:inline: narrow_backward:inline: "
        "narrow_softmax:inline: rows_log_sum:kernel:x,out,rows,n "
        "rows_softmax:kernel:x,out,rows,n rows_softmax_backward:kernel:g,y,out,rows,n "
        "short_softmax:kernel:x,out,rows,n "
    ),
    "sort": (
        "among:kernel:x,tests,out,n,k by_bytes:inline: "
        "by_digits:kernel:keys,other,rows,n,shift,passes "
        "chosen_of_many:kernel:x,keys,words,out,places,outer,n,inner,k "
        "chosen_rows:kernel:x,out,places,outer,n,inner,k commonest:inline: goes_on:inline: "
        "keys_of:inline: like:inline: mended:kernel:x,keys,bad,rows,n,shift,far "
        "ordered:routine: packed:kernel:x,out,rows,n,least,shift,cut place_in_doubt:routine: "
        "place_in_order:routine: rank_of_choice:inline: ranked:inline: "
        "runs_counted:kernel:x,found,n "
        "runs_placed:kernel:x,order,before,values,starts,inverse,n "
        "search:kernel:seq,x,out,wrong,rows,n,m,step sort_for_mode:routine: "
        "sorted_rows:kernel:x,out,places,outer,n,inner,flip "
        "unpacked:kernel:x,keys,out,indices,rows,n,k,mask "
    ),
    "spans": (
        "averages:kernel:x,out,planes,C,D,H,W,od,oh,ow,zs,ys,xs "
        "averages_gradient:kernel:g,out,planes,C,D,H,W,od,oh,ow,zs,ys,xs,deep,down,across "
        "better:inline: "
        "fractional_spans:kernel:samples,out,wrong,planes,columns,column,size,k,m "
        "largest_in_row_major:inline: "
        "maxima:kernel:x,out,places,planes,C,D,H,W,od,oh,ow,zs,ys,xs,apart span:inline: "
        "spread:inline: "
    ),
    "special": (
        "constant:inline: digamma:inline: entropy:inline: erfinv:inline: horner_of:inline: "
        "hurwitz:inline: lgamma:inline: log_gamma:inline: log_ndtr:inline: most_of:inline: "
        "mvlgamma:inline: ndtr:inline: ndtri:inline: polygamma:inline: power_below:inline: "
        "quantile:inline: sine:inline: trigamma:inline: turned:inline: xlog1py:inline: "
        "zeta:inline: "
    ),
    "trigonometry": (
        "cos:inline: near_zero:inline: near_zero_of_single:inline: sin:inline: "
        "sine_and_cosine:inline: tan:inline: "
    ),
    "ufunc_entry": (
        "call_of_two:entry:self,args,given,keywords compiled_loop:entry:args,size,steps,plan "
        "flags_of:inline: independent:inline: restore_status:inline: save_status:inline: "
        "shared_loop:entry:args,size,steps,plan uncompiled_loop:entry:args,size,steps,plan "
        "word_of:inline: "
    ),
    "unchanged": (
        "holds:entry:self,objects,count spread:entry:self,objects,count table_of:inline: "
    ),
    "update": (
        "lengths:kernel:items,kind,dtype,parts,out,n plain:inline: "
        "update:kernel:items,kind,dtype,constants,refused,n "
    ),
    "winograd": (
        "add_products:routine: combined:inline: convolve:kernel:x,u,bias,y,wrong,plan "
        "convolve_weight:kernel:x,g,y,parts,wrong,plan multiply:routine: "
        "read_channels:routine: read_tiles:routine: squared:inline: tile:routine: "
        "transform:routine: transform_back:routine: transform_windows:kernel:w,u,plan "
        "windows:routine: write_tiles:routine: write_windows:routine: "
    ),
}
